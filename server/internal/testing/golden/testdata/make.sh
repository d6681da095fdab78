#!/usr/bin/env bash
# Makes a golden store: runs a workload with the carillon of some format and packs the folder. See README.md.
#
#   make.sh CARILLON FORMAT [BACKUP]   writes format-FORMAT.tar.gz; with a third argument, the carillon that makes it, also
#                                      backup-1.carillon; since format 6 also encrypted-FORMAT.tar.gz
set -euo pipefail
carillon=$1 format=$2 here=$(cd "$(dirname "$0")" && pwd)
name=format encrypted=${GOLDEN_ENCRYPTED:-}
[ -z "$encrypted" ] || name=encrypted
work=$(mktemp -d)
target='' node=''
trap 'kill $target $node 2>/dev/null || true; rm -rf "$work"' EXIT

python3 - >"$work/port" <<'PY' &
import http.server
class Target(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers.get('Content-Length') or 0))
        fails = self.path == '/fails'
        body = b'it fails' if fails else b'{"done":true}'
        self.send_response(500 if fails else 200)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args): pass
server = http.server.HTTPServer(('127.0.0.1', 0), Target)
print(server.server_port, flush=True)
server.serve_forever()
PY
target=$!
until [ -s "$work/port" ]; do sleep 0.1; done
url=http://127.0.0.1:$(cat "$work/port")

export CARILLON_SERVER=127.0.0.1:17070
folders=(store) flags=()
if [ "$format" -ge 5 ]; then folders+=(payloads) flags+=(--payload-store "file:$work/payloads"); fi
if [ "$format" -ge 6 ]; then flags+=(--audit store); fi
if [ -n "$encrypted" ]; then
  mkdir "$work/keys"
  "$carillon" encryption-key create "$work/keys/keys.json" >/dev/null
  folders+=(keys) flags+=(--encryption-keys "$work/keys/keys.json")
fi
"$carillon" serve --store "pebble:$work/store" --partitions 4 --node-name golden --grpc $CARILLON_SERVER --http 127.0.0.1:17080 \
  --allow-target 127.0.0.0/8 "${flags[@]}" 2>"$work/log" &
node=$!
until "$carillon" job list >/dev/null 2>&1; do sleep 0.2; done

# The words of format 1 were others.
limit=--concurrency-limit key=--concurrency-key after=--depends-on priority=--priority jitter=--jitter
if [ "$format" = 1 ]; then limit=--limit key=--limit-key after=--after priority=--class jitter=--spread; fi
put() { "$carillon" job put "$@" >/dev/null 2>"$work/warnings" || { cat "$work/warnings"; exit 1; }; }

"$carillon" namespace set billing --strict=true $limit ledger=2 >/dev/null
put once --at 2099-06-01T12:00:00Z --worker golden --data '{"n":1}' --label team=core
put cron --schedule "0 30 2 * * *" --time-zone Europe/Berlin --worker golden --misfire skip
put interval --schedule "@every 24h" --worker golden --misfire skip $jitter 5m
put iso --schedule "R5/2099-01-01T00:00:00Z/P1D" --worker golden
put paused --schedule "@daily" --worker golden --paused --note "until the audit is over"
put waits --schedule "@every 24h" --worker golden --misfire skip $after cron $priority high
put ledger --schedule "@every 24h" --worker ledger --misfire skip $key ledger -n billing
put invoice --at 2099-01-01T00:00:00Z --worker golden -n billing --data "\"$(head -c 3000 /dev/zero | tr '\0' x)\""

# What ends: a success with a result, an error that is retried, a dead run.
put works --http "$url/works" --data '{"a":1}'
put retries --http "$url/fails" --retry constant --retry-interval 100ms --max-retries 2 --on-exhausted drop
put dies --http "$url/fails" --retry constant --max-retries 0 --on-exhausted dead --data '{"order":7}'
put often --schedule "@every 1s" --repeats 4 --http "$url/works"

# What is due and has nobody who takes it: it is in the store when the node ends.
put due --in 1s --worker golden --data '{"due":true}'
put mortal --in 1s --worker golden --ttl 2099-12-31T00:00:00Z
"$carillon" job trigger cron >/dev/null
"$carillon" job trigger ledger -n billing >/dev/null
"$carillon" job backfill interval --from "$(date -u -d '-3 days' +%FT%TZ)" >/dev/null

if [ "$format" -ge 3 ]; then
  "$carillon" calendar put holidays --date 12-25/12-26 --time-zone Europe/Berlin >/dev/null
  put workdays --schedule "0 0 9 * * MON-FRI" --except holidays --worker golden --misfire skip
  "$carillon" queue pause mail --note "moves house" >/dev/null
fi
if [ "$format" -ge 4 ]; then
  "$carillon" webhook put ops --url "$url/works" --type run.dead,queue >/dev/null
  put dies-too --http "$url/fails" --retry constant --max-retries 0 --on-exhausted dead
fi
if [ "$format" -ge 5 ]; then
  head -c 200000 /dev/zero | tr '\0' x >"$work/large"
  put apart --in 1s --worker golden --data-file "$work/large"
fi
if [ "$format" -ge 6 ]; then
  "$carillon" namespace set billing --quota-jobs 100 --quota-payload-bytes 1000000 --quota-puts 500/1s \
    --quota-runs 1000/1h --quota-concurrent-runs 50 >/dev/null
  "$carillon" namespace set default --rate-limit mail=5/24h/5 >/dev/null
  for n in 1 2 3; do put "rated-$n" --http "$url/works" $key mail; done
fi

sleep 8 # what ends has ended, and is told
kill -TERM $node
wait $node
node=''
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner -cf - "${folders[@]}" | gzip -9n >"$here/$name-$format.tar.gz"
ls -l "$here/$name-$format.tar.gz"
if [ -n "${3:-}" ]; then
  rm -f "$here/backup-1.carillon"
  "$3" backup --store "pebble:$work/store" "$here/backup-1.carillon"
fi
if [ "$format" -ge 6 ] && [ -z "$encrypted" ]; then
  GOLDEN_ENCRYPTED=yes "$0" "$carillon" "$format"
fi
