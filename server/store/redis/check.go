package redis

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// oldest is the first major version of Redis whose scripts say in their first line that they may not be begun
// where they cannot be ended: on a replica, or with memory or disk exhausted.
const oldest = 7

// checkServers refuses servers that cannot keep a store, and warns of settings that keep less than they
// could.
func (s *Store) checkServers(ctx context.Context) error {
	nodes := s.client.Nodes()
	for _, address := range slices.Sorted(maps.Keys(nodes)) {
		if err := s.checkServer(ctx, address, nodes[address]); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) checkServer(ctx context.Context, address string, c rueidis.Client) error {
	text, err := c.Do(ctx, c.B().Info().Build()).ToString()
	if err != nil {
		return fmt.Errorf("store: INFO of Redis at %s: %w", address, err)
	}
	info := fields(text)
	major, _, _ := strings.Cut(info["redis_version"], ".")
	if n, err := strconv.Atoi(major); err != nil || n < oldest {
		return fmt.Errorf("store: Redis at %s is version %s: %d.0 or newer is needed", address,
			info["redis_version"], oldest)
	}
	if info["role"] == "slave" {
		if info["cluster_enabled"] == "1" {
			return nil // it only follows
		}
		return fmt.Errorf("store: Redis at %s is a replica, which cannot be written: give the address of its primary", address)
	}
	if info["master_replid"] == "" {
		return fmt.Errorf("store: what answers at %s as Redis has no replication id (INFO replication: master_replid), "+
			"by which a failover is noticed", address)
	}
	// Where memory has no limit nothing is thrown away, but that is one command away.
	if policy := info["maxmemory_policy"]; strings.HasPrefix(policy, "allkeys-") && info["maxmemory"] != "0" {
		return fmt.Errorf("store: Redis at %s has maxmemory-policy %s: when memory is short, it would throw jobs away; "+
			"set noeviction, which refuses writes instead", address, policy)
	}
	if info["loading"] == "1" {
		return fmt.Errorf("store: Redis at %s: %w", address, errLoading)
	}
	settings := map[string]string{}
	for _, name := range []string{"appendfsync", "no-appendfsync-on-rewrite"} {
		// Services often refuse CONFIG: what INFO says must do.
		if got, err := c.Do(ctx, c.B().ConfigGet().Parameter(name).Build()).AsStrMap(); err == nil {
			maps.Copy(settings, got)
		}
	}
	for _, w := range warnings(info, settings) {
		s.opt.Log.Warn("the store may lose what was acknowledged", "reason", "Redis at "+address+": "+w)
	}
	return nil
}

// fields reads INFO.
func fields(info string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			out[name] = value
		}
	}
	return out
}

// warnings says what a server is set up to lose.
func warnings(info, settings map[string]string) (out []string) {
	switch sync := settings["appendfsync"]; {
	case info["aof_enabled"] == "0":
		out = append(out, "there is no append-only file (appendonly no): a crash or restart loses what was acknowledged since the last snapshot")
	case sync == "":
		out = append(out, "CONFIG is refused, so it is not known how often the append-only file is synced: "+
			"only appendfsync always keeps all that was acknowledged")
	case sync != "always":
		out = append(out, "appendfsync is "+sync+
			": a crash loses what was acknowledged last (everysec: up to two seconds); always keeps all")
	}
	if settings["no-appendfsync-on-rewrite"] == "yes" {
		out = append(out, "no-appendfsync-on-rewrite is yes: while the append-only file is rewritten nothing is synced; no keeps all")
	}
	if policy := info["maxmemory_policy"]; strings.HasPrefix(policy, "allkeys-") {
		out = append(out, "maxmemory-policy is "+policy+
			": with a maxmemory, jobs would be thrown away; noeviction refuses writes instead")
	}
	if replicas := info["connected_slaves"]; replicas != "" && replicas != "0" {
		out = append(out, "it has replicas, which follow it with a delay: a failover loses what was acknowledged last")
	}
	return out
}
