// The check of the Grafana dashboard. It has a module of its own because nobody else needs Grafana's types.
module github.com/carillonhq/carillon/tools/dashboard

go 1.26.0

require github.com/grafana/grafana-foundation-sdk/go v0.0.22
