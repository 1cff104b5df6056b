"""The labelling page.

Project on disk: `storage`, `source` (the graph), `project`. Model: `fitting` (and its process), `nodes`. State of the
page: `state`. Page: `elements`, one file per view (`label_view`, `model_view`, `data_view`), `page`. Server: `guard`
(security), `server`.
"""
