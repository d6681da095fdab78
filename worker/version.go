package worker

import (
	"runtime/debug"
	"sync"
)

// module is the module of this package.
const module = "github.com/carillonhq/carillon"

// version returns this library and its version, as workers introduce themselves: "carillon-go/v0.3.1". A
// program that was built beside the library's source, or without modules, has "carillon-go/(devel)".
var version = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return versionIn(nil)
	}
	return versionIn(info)
})

// versionIn returns the version in what the compiler wrote into a program; nil: it wrote nothing.
func versionIn(info *debug.BuildInfo) string {
	const name, unknown = "carillon-go/", "(devel)"
	if info == nil {
		return name + unknown
	}
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Path != module {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		if m.Version != "" {
			return name + m.Version
		}
	}
	return name + unknown
}
