package delivery

import "cmp"

// Limit is a concurrency key in its namespace. The limit itself, how many attempts may be in force, is a
// setting of the namespace.
type Limit struct{ Namespace, Key string }

// Compare orders limits by namespace and key.
func (l Limit) Compare(o Limit) int {
	return cmp.Or(cmp.Compare(l.Namespace, o.Namespace), cmp.Compare(l.Key, o.Key))
}

// Line names a waiting line for permits of a limit. There is one for each queue that such runs are in.
type Line struct {
	Limit
	Queue Queue
}

// String returns the line as the store names it, like a queue of its own. Concurrency keys contain no zero
// byte.
func (l Line) String() string { return l.Parked().String() }

// Parked names the line's runs in the store like a queue of their own.
func (l Line) Parked() Queue {
	q := l.Queue
	q.Address += "\x00" + l.Key
	return q
}
