package server

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/carillonhq/carillon/server/internal/cluster"
	"github.com/carillonhq/carillon/server/store"
)

// shared returns the settings that all nodes of a store should have in common, so that a job is treated alike
// whichever node owns it. macKey is the store's.
func (c Config) shared(macKey []byte) []cluster.Setting {
	return append(c.Payloads.settings(), []cluster.Setting{
		{Name: "lease-ttl", Value: c.LeaseTTL.String(), Must: true}, // other nodes wait for it
		{Name: "TLS between nodes", Value: c.Credentials.setting(), Must: true},
		{Name: "auth", Value: c.authSetting()},
		{Name: "audit", Value: c.auditTo()},
		{Name: "audit-keep", Value: c.Audit.Keep.String()},
		{Name: "allow-target", Value: c.allowed()},
		{Name: "encryption at rest", Value: c.Encryption.setting()}, // not Must: they get it in turn
		{Name: "signing-secrets", Value: c.secretsDigest(macKey)},
		{Name: "dead-retention", Value: c.DeadRetention.String()},
		{Name: "max-payload", Value: strconv.Itoa(c.Limits.Payload)},
		{Name: "max-metadata", Value: strconv.Itoa(c.Limits.Metadata)},
		{Name: "max-labels", Value: strconv.Itoa(c.Limits.Labels)},
		{Name: "max-headers", Value: strconv.Itoa(c.Limits.Headers)},
	}...)
}

// allowed returns Targets.Allow as text, independent of their order.
func (c Config) allowed() string {
	var all []string
	for _, p := range c.Targets.Allow {
		all = append(all, p.Masked().String())
	}
	if len(all) == 0 {
		return "none"
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ",")
}

// digestBytes is how many bytes of a digest are shown: enough to tell two apart.
const digestBytes = 6

// secretsDigest tells signing secrets apart without revealing anything to a reader without the store's key.
func (c Config) secretsDigest(macKey []byte) string {
	if len(c.Targets.SigningSecrets) == 0 {
		return "none"
	}
	mac := hmac.New(sha256.New, macKey)
	mac.Write([]byte("carillon.signing-secrets"))
	for _, ns := range slices.Sorted(maps.Keys(c.Targets.SigningSecrets)) {
		fmt.Fprintf(mac, "%q%q", ns, c.Targets.SigningSecrets[ns])
	}
	return fmt.Sprintf("of %d namespaces, %s", len(c.Targets.SigningSecrets),
		hex.EncodeToString(mac.Sum(nil)[:digestBytes]))
}

// warnOfPlainStore warns if the store is on another machine, and whoever is between could read and change
// what is said to it.
func (c Config) warnOfPlainStore() {
	d, err := store.DriverOf(c.Store)
	if err != nil || d.Unverified == nil {
		return // an invalid URL has been refused
	}
	if host := d.Unverified(c.Store); host != "" {
		c.Log.Warn("the store is on another machine, and the connection is not encrypted or the server not verified: see docs/security.md",
			"host", host, "store", store.Redact(c.Store))
	}
}

// checkPartitions warns if an existing store has another number of partitions than the configuration.
func (n *Node) checkPartitions() {
	if has := n.store.Meta().Partitions; n.config.Partitions != 0 && n.config.Partitions != has {
		n.config.Log.Warn("the store was made with another number of partitions: --partitions is not heeded; carillon migrate changes it",
			"partitions", has, "said", n.config.Partitions)
	}
}
