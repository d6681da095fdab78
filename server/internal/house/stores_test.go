package house

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// TestEachStoreIsNamed: package store knows the package of each driver, so that the error of a program that does
// not import it can say which import is missing.
func TestEachStoreIsNamed(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "server", "store", "driver.go"))
	if err != nil {
		t.Fatal(err)
	}
	drivers := 0
	for _, s := range sources(t) {
		if path.Base(s.path) != "driver.go" || path.Dir(path.Dir(s.path)) != "server/store" {
			continue
		}
		drivers++
		if pkg := path.Base(path.Dir(s.path)); !strings.Contains(string(text), `: "`+pkg+`"`) {
			t.Errorf("server/store/driver.go does not name the package %s", pkg)
		}
	}
	if drivers < 6 {
		t.Errorf("%d drivers were found", drivers)
	}
}
