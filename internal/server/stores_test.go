package server_test

// The stores of the tests.
import (
	_ "github.com/carillonhq/carillon/store/memory"
	_ "github.com/carillonhq/carillon/store/pebble"
	_ "github.com/carillonhq/carillon/store/postgres"
	_ "github.com/carillonhq/carillon/store/redis"
)
