#!/bin/sh
# Memory of a node while payloads of 64 MiB are put, fired and collected: COUNT of them, AT_ONCE at the same
# time, half to an HTTP target and half to workers. It needs curl, python3 and Linux.
#
#   go build -o /tmp/carillon ./server/cmd/carillon && bench/payloads.sh /tmp/carillon [URL of a payload store]
set -eu
carillon=$1
count=${COUNT:-32}
at_once=${AT_ONCE:-4}
dir=$(mktemp -d)
store=${2:-file:$dir/payloads}
grpc=127.0.0.1:17170
http=127.0.0.1:17180
export CARILLON_SERVER=$grpc
pids=
trap 'kill $pids 2>/dev/null || true; wait; rm -rf "$dir"' EXIT
peak() { awk -v at="$1" '/VmHWM/ {printf "%-40s %4d MiB resident at most\n", at, $2/1024}' "/proc/$node/status"; }

"$carillon" serve --store "pebble:$dir/store" --payload-store "$store" --grpc $grpc --http $http \
	--allow-target 127.0.0.1 --http-host-limit "$at_once" 2>"$dir/log" &
node=$!
pids=$node
python3 - "$dir/sink" <<'PY' &
import hashlib, http.server, sys
out = open(sys.argv[1], "w", buffering=1)
class Sink(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        left, sum = int(self.headers["Content-Length"]), hashlib.sha256()
        while left > 0:
            part = self.rfile.read(min(left, 1 << 16))
            if not part:
                return
            sum.update(part)
            left -= len(part)
        out.write(sum.hexdigest() + "\n")
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", 17190), Sink).serve_forever()
PY
pids="$pids $!"
until curl -sf http://$http/readyz >/dev/null; do sleep 0.1; done
peak "at the start"

put() { # a payload and its job, number $1
	head -c 67108864 /dev/urandom >"$dir/data.$1"
	sha256sum <"$dir/data.$1" | cut -d' ' -f1 >"$dir/sum.$1"
	ref=$(curl -sSf -T "$dir/data.$1" http://$http/v1/namespaces/default/payloads | cut -d'"' -f4)
	target='{"worker":{"queue":"q"}}'
	if [ $(($1 % 2)) = 0 ]; then target='{"http":{"url":"http://127.0.0.1:17190/"}}'; fi
	curl -sSf -o "$dir/put.$1" -X PUT -d "{\"payload\":\"$ref\",\"target\":$target}" "http://$http/v1/namespaces/default/jobs/$1"
	rm "$dir/data.$1"
}
i=0
while [ $i -lt "$count" ]; do
	batch=
	while [ $i -lt "$count" ] && [ "$(echo $batch | wc -w)" -lt "$at_once" ]; do
		put $i &
		batch="$batch $!"
		i=$((i + 1))
	done
	wait $batch
done
peak "$count payloads of 64 MiB put"
"$carillon" work q --concurrency "$at_once" -- sh -c 'sha256sum | cut -d" " -f1' >>"$dir/worked" 2>>"$dir/log" &
worker=$!
pids="$pids $worker"
until [ "$(cat "$dir/sink" "$dir/worked" 2>/dev/null | wc -l)" -ge "$count" ]; do sleep 0.2; done
cat "$dir"/sum.* | sort >"$dir/want"
cat "$dir/sink" "$dir/worked" | sort | cmp - "$dir/want"
peak "all of them fired, each with its bytes"
case $store in
file:*) # collected as if five days had passed
	for day in "${store#file:}"/payloads/2*/; do mv "$day" "${store#file:}/payloads/2026-01-01"; done
	find "${store#file:}" -type f -exec touch -d "5 days ago" {} +
	"$carillon" payload collect --wait 5m
	peak "all of them collected"
	;;
esac
