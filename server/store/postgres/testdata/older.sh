#!/bin/sh
# Prints what an older build makes of an empty database, with a few jobs in it: what tables_older.sql was made by.
#
#	older.sh CARILLON URL
#
# CARILLON is the build, here that of 843faff7 (go build -o CARILLON ./cmd/carillon in a work tree of it), and URL an empty database.
set -eu
grpc=127.0.0.1:27070
"$1" serve --store "$2" --node-name older --partitions 2 --grpc "$grpc" --http 127.0.0.1:27080 --drain-grace 1s >&2 &
node=$!
trap 'kill "$node" 2>/dev/null || true' EXIT
job() { "$carillon" job "$@" --server "$grpc" >&2; }
carillon=$1
tries=0
until job list; do
	tries=$((tries + 1))
	[ "$tries" -lt 30 ]
	sleep 1
done
for name in a b c; do
	job put "$name" --worker mail --in 8760h --data "{\"job\":\"$name\"}"
done
job put every --worker mail --schedule '@daily'
kill -TERM "$node"
wait "$node" || true
trap - EXIT
# The order of the rows and the names of owners do not matter; a role and \restrict would.
pg_dump --inserts --no-owner --no-privileges --no-comments "$2" | grep -v -e '^--' -e '^\\' -e '^$'
