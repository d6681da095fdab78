// Command dashboard reads a Grafana dashboard with Grafana's own types, as strictly as they can, and prints what its panels ask Prometheus
// for as recording rules, so that promtool can check the expressions:
//
//	go run . DASHBOARD.json > rules.yml && promtool check rules rules.yml
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: dashboard FILE")
		os.Exit(2)
	}
	if err := check(os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}

// check reads the dashboard and prints its expressions.
func check(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	plugins.RegisterDefaultPlugins() // so that queries and options of panels have types
	var strict, d dashboard.Dashboard
	// An error of these may be an empty list, after which something is left out: so the values are read once more.
	if err := strict.UnmarshalJSONStrict(raw); err != nil && err.Error() != "" {
		return err
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		return err
	}
	if err := d.Validate(); err != nil && err.Error() != "" {
		return err
	}
	var expressions []string
	for _, p := range d.Panels {
		if p.Panel == nil {
			continue // a row
		}
		for _, t := range p.Panel.Targets {
			q, ok := t.(*prometheus.Dataquery)
			if !ok || p.Panel.Title == nil {
				return fmt.Errorf("a panel has no title, or asks by a %T", t)
			}
			expressions = append(expressions, q.Expr)
		}
	}
	if len(expressions) == 0 {
		return errors.New("it asks for nothing")
	}
	return printRules(expressions)
}

// printRules prints recording rules. What Grafana fills in is filled in.
func printRules(expressions []string) error {
	fill := strings.NewReplacer("$__rate_interval", "1m", "$__range", "1h", "$job", "carillon")
	fmt.Println("groups:\n  - name: dashboard\n    rules:")
	for i, e := range expressions {
		e = fill.Replace(e)
		if strings.Contains(e, "$") {
			return fmt.Errorf("%s: a variable that is not known here", e)
		}
		text, err := json.Marshal(e) // JSON is YAML
		if err != nil {
			return err
		}
		fmt.Printf("      - {record: 'dashboard:%d', expr: %s}\n", i, text)
	}
	return nil
}
