package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/manifest"
)

// manifests holds the flags of a command that reads files of jobs.
type manifests struct {
	connection
	files []string
}

func (m *manifests) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVarP(&m.files, "file", "f", nil,
		"`file` of jobs in YAML or JSON, folder of such files, or - for standard input; repeatable (required)")
	m.connection.add(cmd)
}

// manifestTypes are the names' ends of the files that are read of a folder.
var manifestTypes = []string{".yaml", ".yml", ".json"}

// read reads the files, gives the jobs their namespace, and checks all of them.
func (m *manifests) read(cmd *cobra.Command, in io.Reader) ([]manifest.Item, error) {
	m.resolve(cmd)
	if len(m.files) == 0 {
		return nil, usagef("--file: give a file, a folder, or - for standard input")
	}
	var all []manifest.Item
	for _, name := range m.files {
		paths, err := manifestPaths(name)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			items, err := readManifest(path, in)
			if err != nil {
				return nil, err
			}
			all = append(all, items...)
		}
	}
	if len(all) == 0 {
		return nil, usagef("--file: there is no job in %s", strings.Join(m.files, ", "))
	}
	return all, m.check(cmd, all)
}

func readManifest(path string, in io.Reader) ([]manifest.Item, error) {
	text, err := readFile(path, in)
	if err != nil {
		return nil, err
	}
	if path == "-" {
		path = "standard input"
	}
	items, err := manifest.Read(path, text)
	return items, manifestError(err)
}

// manifestError makes a fault of a file a usage error.
func manifestError(err error) error {
	if fault, ok := errors.AsType[*manifest.Error](err); ok {
		return usagef("%s", fault)
	}
	return err
}

// manifestPaths returns the files that a name stands for, in the order of their names.
func manifestPaths(name string) ([]string, error) {
	if name == "-" {
		return []string{name}, nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, fileError("file", name, err)
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, fileError("file", name, err)
	}
	var paths []string
	for _, e := range entries {
		if !e.IsDir() && slices.Contains(manifestTypes, filepath.Ext(e.Name())) {
			paths = append(paths, filepath.Join(name, e.Name()))
		}
	}
	if len(paths) == 0 {
		return nil, usagef("--file: in the folder %q no file ends in %s", clip(name, 80),
			strings.Join(manifestTypes, ", "))
	}
	return paths, nil
}

// wide bounds leave it to the node how large the parts of a job may be.
var wideBounds = carillon.Bounds{Payload: manifest.MaxBytes, Metadata: manifest.MaxBytes,
	Labels:  math.MaxInt32,
	Headers: manifest.MaxBytes, URL: manifest.MaxBytes, Schedule: manifest.MaxBytes, Note: manifest.MaxBytes}

// check checks jobs before the first of them is sent.
func (m *manifests) check(cmd *cobra.Command, all []manifest.Item) error {
	seen := make(map[carillon.Key]string)
	for i := range all {
		item := &all[i]
		switch j := &item.Job; {
		case j.Namespace == "":
			j.Namespace = m.namespace
		case cmd.Flags().Changed("namespace") && j.Namespace != m.namespace:
			return usagef("%s: the job is of namespace %q, and --namespace says %q", item.Where(), j.Namespace, m.namespace)
		}
		if err := item.Job.Validate(wideBounds); err != nil {
			return manifestError(item.Fault(err))
		}
		if where, twice := seen[item.Job.Key()]; twice {
			return usagef("%s: the job %s stands at %s as well", item.Where(), item.Job.Key(), where)
		}
		seen[item.Job.Key()] = item.Where()
	}
	return nil
}

// callsAtOnce is how many calls a command about many jobs has going.
const callsAtOnce = 8

// errNotSent is the error of a call that was not made, since another one found nobody who answers.
var errNotSent = errors.New("it was not sent")

// each calls f for 0 to n-1, several at a time, each within the time that the user is ready to wait, and
// shows how far it is. It returns the error of each.
func (c *connection) each(cmd *cobra.Command, stage string, n int,
	f func(ctx context.Context, node *client.Client, i int) error) ([]error, error) {
	node, err := c.dial()
	if err != nil {
		return nil, err
	}
	defer node.Close()
	shown := newProgress(cmd.ErrOrStderr())
	defer shown.clear()
	errs := slices.Repeat([]error{errNotSent}, n)
	var next, done atomic.Int64
	var wg sync.WaitGroup
	for range min(n, callsAtOnce) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && cmd.Context().Err() == nil; i = int(next.Add(1)) - 1 {
				ctx, cancel := context.WithTimeout(cmd.Context(), c.wait)
				errs[i] = f(ctx, node, i)
				cancel()
				shown.show(stage, done.Add(1), int64(n))
				if e, ok := errors.AsType[*carillon.Error](errs[i]); ok && e.Kind == carillon.Unavailable {
					next.Store(int64(n)) // the others would wait as long
				}
			}
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err = c.explain(err); carillon.KindOf(err) == carillon.Unavailable {
			return errs, err
		}
		errs[i] = err
	}
	return errs, cmd.Context().Err()
}

// live reads the jobs that there are under the names of items; nil for one that is not there.
func (m *manifests) live(cmd *cobra.Command, items []manifest.Item) ([]*carillon.Job, error) {
	jobs := make([]*carillon.Job, len(items))
	errs, err := m.each(cmd, "reading jobs", len(items),
		func(ctx context.Context, node *client.Client, i int) error {
			job, err := node.GetJob(ctx, items[i].Job.Key())
			if err == nil {
				jobs[i] = &job
			}
			return err
		})
	if err != nil {
		return nil, err
	}
	for _, err := range errs {
		if err != nil && carillon.KindOf(err) != carillon.NotFound {
			return nil, err
		}
	}
	return jobs, nil
}

// shownName names a job of a file to people: with its namespace if that is another one.
func (m *manifests) shownName(j *carillon.Job) string {
	if j.Namespace == m.namespace {
		return j.Name
	}
	return fmt.Sprint(j.Key())
}
