package house

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// inRoot are the files of the root folder that are no Go files. "carillon" is the binary, which git ignores.
var inRoot = []string{"CHANGELOG.md", "LICENSE", "Makefile", "README.md", "SECURITY.md", "THIRD_PARTY_LICENSES.txt",
	"buf.yaml", "carillon", "go.mod", "go.sum", "go.work", "go.work.sum"}

// What a tool has left there, such as archives that it downloaded, is easily added by mistake.
func TestTheRootFolderHoldsItsFilesOnly(t *testing.T) {
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() || name[0] == '.' || filepath.Ext(name) == ".go" || slices.Contains(inRoot, name) {
			continue
		}
		t.Errorf("%s is in the root folder: remove it, or name it in inRoot", name)
	}
}
