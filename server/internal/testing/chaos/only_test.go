package chaos_test

import (
	"strings"
	"testing"

	"github.com/carillonhq/carillon/server/internal/testing/chaos"
)

// TestUnknownKindsOfFaults are named, also beside known ones, before anything is started.
func TestUnknownKindsOfFaults(t *testing.T) {
	only := []string{"kill", "store moved", "kill one"}
	_, err := chaos.Run(t.Context(), chaos.Options{Binary: "none", Only: only})
	if err == nil || !strings.Contains(err.Error(), `"store moved" is no kind`) || !strings.Contains(err.Error(), `"kill one" is no`) {
		t.Errorf("of a node alone: %v", err)
	}
	_, err = chaos.RunCluster(t.Context(), chaos.ClusterOptions{ClusterConfig: chaos.ClusterConfig{Binary: "none"}, Only: only})
	if err == nil || !strings.Contains(err.Error(), `"kill" is no kind`) || strings.Contains(err.Error(), `"kill one" is no`) {
		t.Errorf("of a cluster: %v", err)
	}
}
