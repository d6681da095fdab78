//go:build !linux

package etcdfolder

// limitMemory does nothing: what can be limited elsewhere counts mapped files, too.
func limitMemory(uint64) error { return nil }
