package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon/server/store/pebble"
)

// newStore returns the command `carillon store`.
func newStore(a app) *cobra.Command {
	return newGroup("store", "Look after the folder of an embedded store", newStoreCheck(a))
}

// newStoreCheck returns the command `carillon store check`.
func newStoreCheck(a app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check DIR",
		Short: "Read a whole store and name what is damaged",
		Long: `Read a whole store and name what is damaged: files, partitions, and jobs as far as their names can be read. DIR is the folder
of --store pebble:DIR; its node must be stopped. Nothing is changed. The command fails if anything is wrong.

A damaged store is not repaired: restore a backup. Where there is none and nodes still start with it, they serve what is
left; put lost jobs again under new names, or move the readable ones to a new store.`,
		Example: `carillon store check /var/lib/carillon`,
		Args:    arguments(1, 1),
		RunE:    func(cmd *cobra.Command, words []string) error { return checkStore(cmd, a, words[0]) },
	}
	addOutput(cmd)
	return cmd
}

// storeReport is the result as JSON.
type storeReport struct {
	Whole   bool          `json:"whole"`
	Refused string        `json:"refused,omitempty"`
	Tables  int           `json:"tables"`
	Records int           `json:"records"`
	Damaged []storeDamage `json:"damaged,omitempty"`
	Lost    []storeLost   `json:"lost,omitempty"`
}

type storeDamage struct {
	Table      string `json:"table"`
	Cause      string `json:"cause"`
	Partitions []int  `json:"partitions"` // -1: metadata of the store
	After      string `json:"after,omitempty"`
	Before     string `json:"before,omitempty"`
}

type storeLost struct {
	Partition int    `json:"partition"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	What      string `json:"what"`
}

// errStoreDamaged is the command's error if something is wrong.
var errStoreDamaged = errors.New("the store is damaged: restore a backup")

func checkStore(cmd *cobra.Command, a app, dir string) error {
	found, err := pebble.Check(strings.TrimPrefix(dir, "pebble:"), pebble.Options{})
	if err != nil {
		return err
	}
	report := reportOf(found)
	if structured(cmd) {
		err = a.encode(cmd, report)
	} else {
		err = a.print(report.text())
	}
	if err == nil && !report.Whole {
		err = errStoreDamaged
	}
	return err
}

func reportOf(c *pebble.Checked) *storeReport {
	r := &storeReport{Whole: c.Whole(), Tables: c.Tables, Records: c.Records}
	if c.Refused != nil {
		r.Refused = c.Refused.Error()
	}
	for _, d := range c.Damaged {
		r.Damaged = append(r.Damaged, storeDamage{filepath.Base(d.Part), d.Cause.Error(), d.Partitions, d.From,
			d.To})
	}
	for _, l := range c.Lost {
		r.Lost = append(r.Lost, storeLost{l.Partition, l.Key.Namespace, l.Key.Name, l.What})
	}
	return r
}

// text describes the result for people.
func (r *storeReport) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d tables were read, with %d jobs and pending runs.\n", r.Tables, r.Records)
	if r.Refused != "" {
		fmt.Fprintf(&b, "A start is refused: %s\n", r.Refused)
	}
	for _, d := range r.Damaged {
		fmt.Fprintf(&b, "Table %s is damaged (%s). Lost are records of %s", d.Table, d.Cause,
			partitionWords(d.Partitions))
		if d.After != "" {
			fmt.Fprintf(&b, ", after %s", d.After)
		}
		if d.Before != "" {
			fmt.Fprintf(&b, ", up to %s", d.Before)
		}
		fmt.Fprintln(&b, ".")
	}
	if r.Whole {
		fmt.Fprintln(&b, "Nothing is damaged.")
	}
	if len(r.Lost) == 0 {
		return b.String()
	}
	return b.String() + table([]string{"PARTITION", "NAMESPACE", "JOB", "LOST"}, r.Lost,
		func(l *storeLost) []string {
			return []string{strconv.Itoa(l.Partition), l.Namespace, l.Name, l.What}
		})
}

// partitionWords lists partitions for people.
func partitionWords(numbers []int) string {
	var words []string
	for _, n := range numbers {
		if n < 0 {
			words = append(words, "the store's metadata")
		} else {
			words = append(words, fmt.Sprint("partition ", n))
		}
	}
	return strings.Join(words, ", ")
}
