package pebble

import "github.com/carillonhq/carillon/server/store"

// Built is what a group would write, and does not: how many Pebble operations of how many bytes.
func Built(s *Store, writes []store.Write) (operations, bytes int, err error) {
	req, err := s.group(writes)
	if err != nil {
		return 0, 0, err
	}
	ops, err := new(builder).request(s.engines.now, req)
	if err != nil {
		return 0, 0, err
	}
	return int(ops.Count()), ops.Len(), ops.Close()
}

// SayFormat has a store say that it is of a format.
func SayFormat(s *Store, format int) error {
	m, err := readMeta(s.engines.now.db)
	if err != nil {
		return err
	}
	m.Format = format
	return m.write(s.engines.now.db)
}
