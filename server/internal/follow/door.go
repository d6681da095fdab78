package follow

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Door is how a command reaches the node that has the folder of a store open: it cannot open the store, in
// which it would find the nodes and what they know each other by.
type Door struct {
	Address string `json:"address"` // for gRPC, host:port
	Secret  string `json:"secret"`
}

// doorFile is the file in the folder. Only the owner of the node's process may read it.
const doorFile = "NODE"

// ErrNoNode is that no node has the folder of a store open, or it is of an older version.
var ErrNoNode = errors.New("no node serves the store in this folder")

// WriteDoor writes the file. One that a killed node has left is replaced.
func WriteDoor(folder string, d Door) error {
	text, err := json.Marshal(d) //nolint:gosec // it is for a file that only the owner may read
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(folder, doorFile+"-*") // only for its owner to read
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), filepath.Join(folder, doorFile))
	}
	if err != nil {
		err = errors.Join(err, os.Remove(file.Name()))
	}
	return err
}

// ReadDoor reads the file.
func ReadDoor(folder string) (d Door, err error) {
	text, err := os.ReadFile(filepath.Join(folder, doorFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return d, fmt.Errorf("%w: there is no file %s in %s", ErrNoNode, doorFile, folder)
	case err != nil:
		return d, err
	}
	if err := json.Unmarshal(text, &d); err != nil || d.Address == "" || d.Secret == "" {
		return d, fmt.Errorf("%s in %s is not what a node writes there", doorFile, folder)
	}
	return d, nil
}

// CloseDoor removes the file.
func CloseDoor(folder string) error {
	err := os.Remove(filepath.Join(folder, doorFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
