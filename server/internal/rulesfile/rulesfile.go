package rulesfile

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"go.yaml.in/yaml/v3"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/access"
	"github.com/carillonhq/carillon/server/internal/yamlfile"
)

// Limits.
const (
	MaxRules = 1000
	maxText  = 1024 // bytes of what a rule is about
	maxDepth = 8    // names that lead to a claim
)

// Use says which credentials the node takes: a rule for others would have no effect, which is an error.
type Use struct {
	Tokens, Certificates bool
	IDsOnly              bool // of certificates only SPIFFE ids count
}

// file is the whole file.
type file struct {
	Rules *[]entry `yaml:"rules"`
}

// entry is one rule as the file has it.
type entry struct {
	Claim  yaml.Node `yaml:"claim"` // a name, or a list of names
	Value  *string   `yaml:"value"`
	SPIFFE string    `yaml:"spiffe"`
	DNS    string    `yaml:"dns"`
	CN     string    `yaml:"cn"`
	Grants []grant   `yaml:"grants"`
}

// grant is one grant of a rule.
type grant struct {
	Role       string   `yaml:"role"`
	Namespaces []string `yaml:"namespaces"`
	Queues     []string `yaml:"queues"`
}

// Read reads a file. An error names every rule and field at fault.
func Read(path string, use Use) ([]access.Rule, error) {
	text, err := yamlfile.Bytes(path)
	if err != nil {
		return nil, err
	}
	return parse(path, text, use)
}

func parse(path string, text []byte, use Use) ([]access.Rule, error) {
	var f file
	if err := yamlfile.Decode(path, text, &f); err != nil {
		return nil, err
	}
	if f.Rules == nil { // as in a file of which only the beginning is written
		return nil, fmt.Errorf("%s: rules: it is missing; rules: [] grants nothing to anybody", path)
	}
	if len(*f.Rules) > MaxRules {
		return nil, fmt.Errorf("%s: rules: there are %d, more than %d", path, len(*f.Rules), MaxRules)
	}
	rules := make([]access.Rule, 0, len(*f.Rules))
	var faults []error
	for i := range *f.Rules {
		r, err := (*f.Rules)[i].rule(use)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: rules[%d].%w", path, i, err))
			continue
		}
		rules = append(rules, r)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return rules, nil
}

// rule returns what an entry says. Its error begins with the field at fault.
func (e *entry) rule(use Use) (access.Rule, error) {
	r := access.Rule{SPIFFE: e.SPIFFE, DNS: e.DNS, CN: e.CN}
	if err := e.about(use); err != nil {
		return r, err
	}
	if e.Claim.Kind != 0 {
		if err := e.claim(&r); err != nil {
			return r, err
		}
	}
	for _, g := range e.Grants {
		r.Grants = append(r.Grants, carillon.AccessGrant{Role: carillon.Role(g.Role), Namespaces: g.Namespaces,
			Queues: g.Queues})
	}
	if len(r.Grants) == 0 {
		return r, errors.New("grants: what is granted to them? Give role and namespaces")
	}
	if err := (&carillon.NewKey{Grants: r.Grants}).Validate(time.Time{}); err != nil {
		if e, ok := errors.AsType[*carillon.Error](err); ok {
			return r, fmt.Errorf("%s: %s", e.Field, e.Message)
		}
		return r, err
	}
	return r, nil
}

// about checks what an entry is about.
func (e *entry) about(use Use) error {
	given := 0
	for _, is := range []bool{e.Claim.Kind != 0, e.SPIFFE != "", e.DNS != "", e.CN != ""} {
		if is {
			given++
		}
	}
	switch {
	case given == 0:
		return errors.New("claim: about whom is the rule? Give one of claim, spiffe, dns and cn")
	case given > 1:
		return errors.New("claim: a rule has one of claim, spiffe, dns and cn; make several rules")
	case e.Claim.Kind != 0 && !use.Tokens:
		return errors.New("claim: this node takes no tokens, so it has no effect; add oidc to auth, or leave the rule out")
	case e.Claim.Kind == 0 && !use.Certificates:
		return fmt.Errorf("%s: this node does not judge by certificates, so it has no effect; add certificates to auth, or leave the rule out",
			e.name())
	case e.Claim.Kind == 0 && e.Value != nil:
		return errors.New("value: only a rule about a claim has one")
	case e.Claim.Kind == 0 && e.SPIFFE == "" && use.IDsOnly:
		return fmt.Errorf("%s: with the SPIFFE Workload API only spiffe says who somebody is", e.name())
	case e.SPIFFE != "":
		return checkSPIFFE(e.SPIFFE)
	case e.DNS != "":
		return checkDNS(e.DNS)
	}
	return checkText("cn", e.CN)
}

// name is the field that says which certificates.
func (e *entry) name() string {
	switch {
	case e.SPIFFE != "":
		return "spiffe"
	case e.DNS != "":
		return "dns"
	}
	return "cn"
}

// claim reads which claim of a token is meant.
func (e *entry) claim(r *access.Rule) error {
	n := &e.Claim
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	names := n.Content
	if n.Kind == yaml.ScalarNode {
		names = []*yaml.Node{n}
	}
	if n.Kind == yaml.MappingNode || len(names) == 0 || len(names) > maxDepth {
		return fmt.Errorf("claim: it is a name, or a list of at most %d names that lead to one, such as [realm_access, roles]", maxDepth)
	}
	for _, one := range names {
		if one.Kind != yaml.ScalarNode || one.Value == "" {
			return errors.New("claim: a name in it is empty or no text")
		}
		if err := checkText("claim", one.Value); err != nil {
			return err
		}
		r.Claim = append(r.Claim, one.Value)
	}
	if e.Value == nil || *e.Value == "" {
		return errors.New("value: what must the claim be, or have among its values?")
	}
	r.Value = *e.Value
	return checkText("value", r.Value)
}

func checkText(field, text string) error {
	if len(text) > maxText {
		return fmt.Errorf("%s: it has more than %d bytes", field, maxText)
	}
	return nil
}

func checkSPIFFE(text string) error {
	id, open := strings.CutSuffix(text, "/*")
	if _, err := spiffeid.FromString(id); err != nil {
		return fmt.Errorf("spiffe: %.100q is no SPIFFE id such as spiffe://example.org/ns/shop/app, or spiffe://example.org/ns/shop/* for all below",
			text)
	}
	if !open && strings.Contains(text, "*") {
		return fmt.Errorf("spiffe: %.100q: * stands only at the end, after a slash", text)
	}
	return checkText("spiffe", text)
}

// ofNames are the letters of a host's name.
const ofNames = "abcdefghijklmnopqrstuvwxyz0123456789-_"

// checkDNS refuses what no certificate has as a name of one host.
func checkDNS(text string) error {
	for label := range strings.SplitSeq(text, ".") {
		if label == "" || len(label) > 63 || strings.Trim(strings.ToLower(label), ofNames) != "" {
			return fmt.Errorf("dns: %.100q is no name of a host such as shop.example.com; there are no patterns", text)
		}
	}
	return checkText("dns", text)
}
