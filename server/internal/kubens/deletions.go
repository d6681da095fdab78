package kubens

import "sync"

// deletions is the namespaces that the API server has told to be deleted, each until it is dealt with.
type deletions struct {
	mu    sync.Mutex
	names map[string]bool
}

func (d *deletions) set(name string, told bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !told {
		delete(d.names, name)
		return
	}
	if d.names == nil {
		d.names = map[string]bool{}
	}
	d.names[name] = true
}

func (d *deletions) has(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.names[name]
}
