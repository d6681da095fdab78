package etcdembed

// EndWaiting ends the member that an Open has left waiting for the others, if there is one: its folder is to
// go.
func EndWaiting(o Options) {
	waiting.Lock()
	w := waiting.of[o.Folder]
	delete(waiting.of, o.Folder)
	waiting.Unlock()
	if w != nil && w.over.Stop() {
		w.close()
	}
}
