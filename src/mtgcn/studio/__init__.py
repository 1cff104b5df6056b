"""The labelling page.

Project on disk: `storage`, `project`. Model: `fitting`, `worker` (process), `predictions`, `nodes`. State of the page:
`workspace` (shared), `session` (one window). Page: `elements`, `label_view`, `model_view`, `data_view`, `page`. Server:
`guard` (security), `server`.
"""
