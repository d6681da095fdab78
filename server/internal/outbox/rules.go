package outbox

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/carillonhq/carillon/server/internal/httpapi"
)

// rules are what the description of the REST API says of a value, as far as the script checks it.
type rules struct {
	Least    *float64 `json:"min,omitempty"`
	Most     *float64 `json:"max,omitempty"`
	Needs    bool     `json:"n,omitempty"` // it may not be empty
	Bytes    int      `json:"l,omitempty"` // at most; a text has no fewer bytes than characters
	Pattern  string   `json:"p,omitempty"`
	Says     string   `json:"s,omitempty"` // of what does not match
	Count    int      `json:"c,omitempty"` // of a list or an object, at most
	Distinct bool     `json:"d,omitempty"`
	Keys     *rules   `json:"k,omitempty"` // of an object
	Values   *rules   `json:"v,omitempty"` // of an object or a list
}

// schema is a schema of the description, as far as it is looked at.
type schema struct {
	Properties           map[string]schema
	Required             []string
	Minimum, Maximum     *float64
	MinLength, MaxLength int
	MaxItems             int
	MaxProperties        int
	Pattern, Format      string
	UniqueItems          bool
	Enum                 []any
	Items, PropertyNames *schema
	AdditionalProperties json.RawMessage
}

// readSchemas returns the schemas of the description by their names.
func readSchemas() map[string]schema {
	var d struct {
		Components struct{ Schemas map[string]schema }
	}
	if err := json.Unmarshal(httpapi.OpenAPI(), &d); err != nil {
		panic(err) // it is generated, and built in
	}
	return d.Components.Schemas
}

// inKey are members of a job that the script checks by functions of their own.
var inKey = []string{"name", "namespace", "data_base64"}

// rulesOf returns what is said of a member of a message; nil: nothing.
func (s schema) rulesOf(message, name string) *rules {
	if message == "Job" && slices.Contains(inKey, name) {
		return nil
	}
	r := ofSchema(s.Properties[name])
	if r != nil && message == "Job" && (name == "labels" || name == "metadata") {
		r.Keys, r.Values = nil, nil // outbox_check_job says more of them
	}
	return r
}

// spanText is what a node reads as a duration: somewhat more than the description says.
const spanText = `^$|^\s*([+]?(0|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)|P.*[0-9].*)\s*$`

// says is what is wrong with a value that does not match, by format.
var says = map[string]string{
	"span":        "it is no duration such as 90s, 1h30m or PT1H",
	"printable":   "it has a character that is not printable",
	"label-key":   `it has a "=", or a character that is not printable`,
	"job-name":    `it has a ":", or a character that is not printable`,
	"header-name": "it is not a header's name",
	"payload":     "it is no reference to a payload, DAY/SHA256/SIZE",
}

func ofSchema(s schema) *rules {
	r := &rules{Least: s.Minimum, Most: s.Maximum, Needs: s.MinLength > 0, Bytes: s.MaxLength,
		Pattern: s.Pattern, Count: max(s.MaxItems, s.MaxProperties), Distinct: s.UniqueItems}
	if s.Format == "uint64" {
		r.Pattern, r.Bytes = "", 0 // of the number as a text
	}
	if s.Format == "span" {
		r.Pattern = spanText
	}
	if len(s.Enum) > 0 && s.Format == "" && s.Pattern == "" {
		var patterns, words []string
		for _, w := range s.Enum {
			text, is := w.(string)
			if is {
				patterns = append(patterns, regexp.QuoteMeta(text))
			}
			if text != "" {
				words = append(words, text)
			}
		}
		r.Pattern = "^(" + strings.Join(patterns, "|") + ")$"
		r.Says = "it is not one of " + strings.Join(words, ", ")
	}
	if r.Pattern != "" {
		r.Pattern = strings.ReplaceAll(r.Pattern, `\u0000`, `\u0001`) // which no text of PostgreSQL has
		switch said := says[s.Format]; {
		case said != "":
			r.Says = said
		case r.Says == "":
			r.Says = "it does not match " + s.Pattern
		}
	}
	if s.Items != nil {
		r.Values = ofSchema(*s.Items)
	}
	if s.PropertyNames != nil {
		r.Keys = ofSchema(*s.PropertyNames)
	}
	var values schema
	if json.Unmarshal(s.AdditionalProperties, &values) == nil { // false is none
		r.Values = ofSchema(values)
	}
	if *r == (rules{}) {
		return nil
	}
	return r
}

// plainRules is the condition that the members of a job that are texts are right, in SQL.
func plainRules() string {
	job := readSchemas()["JobInput"]
	var names, conditions []string
	for _, name := range stringFields() {
		r := job.rulesOf("Job", name)
		if r == nil || r.Pattern == "" && r.Bytes == 0 {
			continue
		}
		value := "job ->> '" + name + "'"
		var all []string
		if r.Bytes > 0 {
			all = append(all, "octet_length("+value+") <= "+strconv.Itoa(r.Bytes))
		}
		if r.Pattern != "" {
			all = append(all, value+" ~ '"+strings.ReplaceAll(r.Pattern, "'", "''")+"'")
		}
		names = append(names, name)
		conditions = append(conditions,
			"CASE WHEN job ? '"+name+"' THEN "+strings.Join(all, " AND ")+" ELSE true END")
	}
	return "CASE WHEN job ?| '{" + strings.Join(names, ",") + "}' THEN\n      " +
		strings.Join(conditions, "\n      AND ") + "\n      ELSE true END"
}
