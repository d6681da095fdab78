package storetest

import "fmt"

// Warnings is a log that keeps what its warnings say.
type Warnings []string

// Debug implements [store.Logger].
func (*Warnings) Debug(string, ...any) {}

// Warn implements [store.Logger].
func (w *Warnings) Warn(_ string, args ...any) { *w = append(*w, fmt.Sprint(args...)) }

// Error implements [store.Logger].
func (*Warnings) Error(string, ...any) {}
