package carillon_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

// TestKeysHaveFewNames: the names of all grants of a key count, and their bytes.
func TestKeysHaveFewNames(t *testing.T) {
	names := func(n, bytes int) (all []string) {
		for i := range n {
			name := fmt.Sprintf("n%d", i)
			all = append(all, name+strings.Repeat("x", max(0, bytes-len(name))))
		}
		return all
	}
	key := func(namespaces, queues, bytes int) error {
		k := carillon.NewKey{Grants: []carillon.AccessGrant{
			{Role: carillon.RoleViewer, Namespaces: names(namespaces, 0)},
			{Role: carillon.RoleWorker, Namespaces: []string{"a"}, Queues: names(queues, bytes)}}}
		return k.Validate(time.Now())
	}
	if err := key(31, 32, 0); err != nil {
		t.Errorf("64 names: %v", err)
	}
	for _, n := range [][2]int{{32, 32}, {1, 63}, {63, 1}} {
		if err := key(n[0], n[1], 0); !errors.Is(err, carillon.InvalidArgument) || !strings.Contains(err.Error(), "more than 64") {
			t.Errorf("%v: %v", n, err)
		}
	}
	if err := key(1, 40, 102); err != nil {
		t.Errorf("4,083 bytes: %v", err)
	}
	if err := key(1, 40, 103); !errors.Is(err, carillon.InvalidArgument) || !strings.Contains(err.Error(), "more than 4096") {
		t.Errorf("4,123 bytes: %v", err)
	}
}
