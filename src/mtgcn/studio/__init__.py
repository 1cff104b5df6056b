"""The labelling page, and the server of a model.

Project on disk: `storage`, `project`. Model: `fitting` (and its process), `nodes`. State of the page: `state`. Page:
`elements`, one file per view (`label_view` with `map_view`, `nodes_view`, `model_view`, `data_view`), `page`. `server`
has the access control; `api` serves a model alone.
"""
