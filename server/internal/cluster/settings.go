package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/server/store"
)

// Setting is a setting that a node was started with and that should be the same on all nodes.
type Setting struct {
	Name  string // name of the flag, without dashes; with a space in it, what several flags decide
	Value string // as an operator would write it; a digest if it is secret
	// Must: a node that differs from a living one is refused. Otherwise a warning is logged.
	Must bool
}

// settings encodes a node's settings for its member: JSON, by name.
func settings(all []Setting) string {
	byName := make(map[string]string, len(all))
	for _, s := range all {
		byName[s.Name] = s.Value
	}
	text, err := json.Marshal(byName) // sorted by name
	if err != nil || len(all) == 0 {
		return ""
	}
	return string(text)
}

// settingsOf returns a member's settings by name; nil if its version states none.
func settingsOf(m store.Member) (byName map[string]string) {
	if json.Unmarshal([]byte(m.Settings), &byName) != nil {
		return nil
	}
	return byName
}

// compatible refuses a node with a Must setting that differs from that of a living member.
func compatible(mine []Setting, me string, members []store.Member) error {
	var faults []error
	for _, s := range mine {
		for _, m := range members {
			value, says := settingsOf(m)[s.Name]
			if !s.Must || !says || value == s.Value || m.ID == me {
				continue
			}
			field := strings.ReplaceAll(s.Name, "-", "_")
			faults = append(faults, fmt.Errorf("%s: this node is started with %s %s, and node %q at %s, which lives, with %s: "+
				"it must be the same on all nodes; to change it, end all of them and start them with the new one",
				field, shown(s.Name), s.Value, m.ID, m.Address, value))
			break
		}
	}
	return errors.Join(faults...)
}

// shown returns the name of a setting as an operator knows it.
func shown(name string) string {
	if strings.Contains(name, " ") {
		return name
	}
	return "--" + name
}

// maxShown is the most bytes of a value in a warning.
const maxShown = 100

// differences describes the settings in which members differ, a sentence for each.
func differences(members []store.Member) (sentences []string) {
	who := map[string]map[string][]string{} // by name and value
	for _, m := range members {
		for name, value := range settingsOf(m) {
			if who[name] == nil {
				who[name] = map[string][]string{}
			}
			who[name][value] = append(who[name][value], m.ID)
		}
	}
	for name, values := range who {
		if len(values) < 2 {
			continue
		}
		var parts []string
		for value, ids := range values {
			if len(value) > maxShown {
				value = value[:maxShown] + "…"
			}
			parts = append(parts, fmt.Sprintf("%s on %s", value, strings.Join(ids, ", ")))
		}
		slices.Sort(parts)
		sentences = append(sentences, fmt.Sprintf("%s differs: %s", shown(name), strings.Join(parts, "; ")))
	}
	slices.Sort(sentences)
	return sentences
}

// settingsLog logs, once, the settings in which the members differ. It is guarded by the turn.
type settingsLog struct {
	log  *slog.Logger
	last []string // differences that were last logged
}

// compare takes the present members.
func (l *settingsLog) compare(members []store.Member) {
	found := differences(members)
	if slices.Equal(found, l.last) {
		return
	}
	for _, sentence := range found {
		if !slices.Contains(l.last, sentence) {
			l.log.Warn("nodes of the cluster have different settings: they should be the same on all",
				"difference", sentence)
		}
	}
	if len(found) == 0 {
		l.log.Info("the nodes of the cluster have the same settings again")
	}
	l.last = found
}
