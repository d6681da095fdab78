package worker

import (
	"runtime/debug"
	"testing"
)

func TestAWorkerSaysItsVersion(t *testing.T) {
	of := func(path, version string) *debug.Module { return &debug.Module{Path: path, Version: version} }
	replaced := of(module, "v0.3.1")
	replaced.Replace = of("example.com/fork", "v0.3.2")
	local := of(module, "v0.3.1")
	local.Replace = of("../carillon", "")
	for want, info := range map[string]*debug.BuildInfo{
		"carillon-go/v0.3.1": {Main: *of("example.com/app", "v1.0.0"), Deps: []*debug.Module{
			of("example.com/lib", "v2.0.0"), of(module, "v0.3.1")}},
		"carillon-go/v0.3.2":  {Main: *of("example.com/app", "v1.0.0"), Deps: []*debug.Module{replaced}},
		"carillon-go/v0.4.0":  {Main: *of(module, "v0.4.0")},
		"carillon-go/(devel)": {Main: *of("example.com/app", "v1.0.0"), Deps: []*debug.Module{local}},
	} {
		if got := versionIn(info); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := versionIn(nil); got != "carillon-go/(devel)" {
		t.Errorf("without build info: %q", got)
	}
	if got := New(nil, Options{}).hello().Version; got != version() || got == "" {
		t.Errorf("the hello has version %q", got)
	}
}
