package server_test

// The stores of the tests.
import (
	_ "github.com/carillonhq/carillon/server/store/etcd"
	_ "github.com/carillonhq/carillon/server/store/gcs"
	_ "github.com/carillonhq/carillon/server/store/memory"
	_ "github.com/carillonhq/carillon/server/store/pebble"
	_ "github.com/carillonhq/carillon/server/store/postgres"
	_ "github.com/carillonhq/carillon/server/store/redis"
)
