module github.com/carillonhq/carillon/internal/daprapi/compat

go 1.26.8

require (
	github.com/carillonhq/carillon v0.0.0
	github.com/dapr/dapr v1.18.3
	github.com/dapr/kit v0.18.3
	pgregory.net/rapid v1.3.0
)

require (
	golang.org/x/net v0.59.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261019180522-ce908d29299b // indirect
	google.golang.org/grpc v1.84.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
	k8s.io/utils v0.0.0-20250502105355-0f33e8f1c979 // indirect
)

replace github.com/carillonhq/carillon => ../../..
