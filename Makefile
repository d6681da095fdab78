# Sugar: every target is one line that can be typed by hand. Go is all that is needed.

.PHONY: build release test vet lint alerts deploy sbom generate check smoke soak chaos chaos-cluster chaos-failover chaos-sidecars builds scenarios test-dapr bench-peers dev clean

build: ## the binary, in bin/
	CGO_ENABLED=0 go build -trimpath -o bin/carillon ./server/cmd/carillon

release: ## the binary for a host: stripped, position-independent; it needs the system loader, which images from scratch lack
	CGO_ENABLED=0 go build -trimpath -buildmode=pie -ldflags "-s -w" -o bin/carillon ./server/cmd/carillon

test: ## go test work and everything else that CI does
	bash .ci/run

vet: ## what the compiler does not see
	go vet work

lint: ## the linters of .golangci.yml
	bash .ci/run lint

alerts: ## the alert rules of deploy/prometheus, and their tests
	bash .ci/run alerts

deploy: ## the Helm chart, the manifests and the unit of deploy/
	bash .ci/run deploy

sbom: release ## what bin/carillon is made of, as CycloneDX, in bin/
	GOWORK=off go tool -modfile=tools/sbom/go.mod cyclonedx-gomod bin -json -std -licenses -output bin/carillon.cdx.json bin/carillon

generate: ## code from the .proto files, docs/cli.md from the commands
	go generate work

check: ## fails if a generated file is not current
	bash .ci/run generated

smoke: ## a short run of the load generator
	bash .ci/run smoke

chaos: ## a node killed 100 times under load; CYCLES=… and SEED=… for others
	go test ./server/internal/testing/chaos -run TestKill -v -count 1 -timeout 2h -artifacts -outputdir $(CURDIR) -cycles $(or $(CYCLES),100) -seed $(or $(SEED),0)

chaos-cluster: ## three nodes on each store that is installed, 50 faults each; CYCLES=… and SEED=… for others
	go test ./server/internal/testing/chaos -run TestCluster -v -count 1 -timeout 3h -cycles $(or $(CYCLES),50) -seed $(or $(SEED),$(shell date +%s))

chaos-failover: ## three nodes on a PostgreSQL pair that syncs each write, whose primary is killed again and again
	go test ./server/internal/testing/chaos -run TestClusterPostgresFailover -v -count 1 -timeout 3h -cycles $(or $(CYCLES),20) -seed $(or $(SEED),$(shell date +%s))

chaos-sidecars: ## a node in the place of Dapr's scheduler, and three on PostgreSQL, 20 faults each; CYCLES=… and SEED=… for others
	go test ./server/internal/testing/chaos -run TestSidecars -v -count 1 -timeout 2h -cycles $(or $(CYCLES),20) -seed $(or $(SEED),0)

builds: ## this build and ten older ones in one cluster, on PostgreSQL and Redis; BUILDS=… for others; some 20 minutes
	go test ./server/internal/testing/chaos -run TestBuilds -v -count 1 -timeout 3h -builds $(or $(BUILDS),10)

scenarios: ## the scenarios with real nodes, as they are written, on each store that is installed
	go test ./server/internal/testing/scenario -run 'TestS(04|05All|06|07|10W|10Si|11NodeK|12|17|18)' -v -count 1 -timeout 3h -divide 1 -stores postgres,redis

soak: ## a simulated day of load, ten million jobs
	go test ./server/internal/testing/sim -run 'TestSoak$$' -hours 24 -v -timeout 2h

test-dapr: ## the script of docs/dapr.md with Dapr itself; CARILLON_TEST_DAPR is the folder of its programs
	GOWORK=off go -C server/internal/testing/dapr test -v -count 1 -timeout 40m ./...

bench-peers: build ## Carillon beside other schedulers; SIZE=full for more, ARGS=--json for programs
	GOWORK=off go -C bench/peers run . --carillon $(CURDIR)/bin/carillon --size $(or $(SIZE),small) $(ARGS)

dev: ## a node with sample jobs
	go run ./server/cmd/carillon dev

clean: ## what building and dev leave behind
	rm -rf bin carillon-data
