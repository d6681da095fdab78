// Command carillon is the scheduler, its tools and its load generator in one binary.
package main

import (
	"os"
	_ "time/tzdata" // time zones, whatever the machine has

	// the stores that the command can open.
	_ "github.com/carillonhq/carillon/server/store/azblob"
	_ "github.com/carillonhq/carillon/server/store/cassandra"
	_ "github.com/carillonhq/carillon/server/store/etcd"
	_ "github.com/carillonhq/carillon/server/store/etcdembed"
	_ "github.com/carillonhq/carillon/server/store/gcs"
	_ "github.com/carillonhq/carillon/server/store/memory"
	_ "github.com/carillonhq/carillon/server/store/pebble"
	_ "github.com/carillonhq/carillon/server/store/postgres"
	_ "github.com/carillonhq/carillon/server/store/redis"
	_ "github.com/carillonhq/carillon/server/store/s3"
)

//go:generate go run . docs --out ../../../docs/cli.md
//go:generate go run . ingest schema --out ../../../docs/ingest.schema.json
//go:generate go -C ../../.. run ./tools/licences/main.go THIRD_PARTY_LICENSES.txt

func main() {
	os.Exit(execute(called(os.Args[0], os.Args[1:]), newApp(os.Stdin, os.Stdout, os.Stderr)))
}
