package store

import (
	"fmt"
	"slices"
	"strings"
)

// SealMarks selects the marks of a partition that has encrypted records: one for each key that they may need.
// The key of a mark is the id of that key, eight hexadecimal digits. There are few.
var SealMarks = MetaQuery{Kind: KindSeal, Limit: 1000}

// MissingKeys is the error of a node that must not serve a store, or a partition, because it lacks keys that
// records are encrypted with. It is an [ErrSealed].
type MissingKeys struct {
	IDs []string // of the keys, as marks have them
	Any bool     // the node has keys, others
}

// Error implements error.
func (m *MissingKeys) Error() string {
	ids := slices.Compact(slices.Sorted(slices.Values(m.IDs)))
	if m.Any {
		return fmt.Sprintf("records of the store are encrypted with a key that is not in the file of --encryption-keys (%s): "+
			"give the file that the other nodes have", strings.Join(ids, ", "))
	}
	return fmt.Sprintf("records of the store are encrypted (with the key %s), and there are no keys here: give "+
		"--encryption-keys, with the file that the other nodes have", strings.Join(ids, ", "))
}

// Is makes it an [ErrSealed].
func (*MissingKeys) Is(err error) bool { return err == ErrSealed }

// CheckUnsealed is an error if what [SealMarks] finds says that keys are needed.
func CheckUnsealed(marks []MetaRecord) error {
	if len(marks) == 0 {
		return nil
	}
	m := &MissingKeys{}
	for i := range marks {
		m.IDs = append(m.IDs, marks[i].Key)
	}
	return m
}
