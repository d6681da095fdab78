package main

// The stores that the command can open.
import (
	_ "github.com/carillonhq/carillon/store/memory"
	_ "github.com/carillonhq/carillon/store/pebble"
	_ "github.com/carillonhq/carillon/store/postgres"
	_ "github.com/carillonhq/carillon/store/redis"
)
