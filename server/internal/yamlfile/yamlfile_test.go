package yamlfile_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/server/internal/yamlfile"
)

type settings struct {
	Number int `yaml:"number"`
}

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.yaml")
	for text, want := range map[string]string{
		"number: 1": "", "": "", "# nothing": "",
		"numbr: 1":                               "line 1: field numbr not found",
		"number: hunter2":                        "line 1: cannot unmarshal !!str into int",
		"number: hun`ter2`":                      "line 1: cannot unmarshal !!str into int",
		"number: 'hunter2\n\n  x'":               "line 1: cannot unmarshal !!str into int",
		"number: \"`\\nhunter2\"":                "line 1: cannot unmarshal !!str into int",
		"number: !hunter2":                       "line 1: cannot unmarshal into int",
		"number: !x hunter2":                     "line 1: cannot unmarshal into int",
		"number: *hunter2":                       "unknown anchor referenced",
		"number: a\nnumbr: 1":                    "unmarshal errors:\n  line 1: cannot unmarshal !!str into int\n  line 2: field numbr not found",
		"number: [":                              "line 1: ",
		"number: 1\n---\nnumber: 2":              "one document",
		strings.Repeat("#", yamlfile.MaxBytes+1): "larger than",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var s settings
		switch err := yamlfile.Read(path, &s); {
		case want == "" && err != nil:
			t.Errorf("%s: %v", text, err)
		case want == "":
		case err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") ||
			strings.Contains(err.Error(), "settings{"):
			t.Errorf("%.30s: %v, not %s", text, err, want)
		}
	}
	if err := yamlfile.Read(path+".absent", new(settings)); err == nil {
		t.Error("a file that is not there is read")
	}
	if err := yamlfile.Read(filepath.Dir(path), new(settings)); err == nil || !strings.Contains(err.Error(), "regular file") {
		t.Errorf("a folder: %v", err)
	}
}
