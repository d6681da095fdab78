// Command manifests reads Kubernetes manifests with Kubernetes' own types, as strictly as its API server does with
// fieldValidation=Strict, and holds them to what a node of Carillon is to be: without rights, and whole.
//
//	go run . FILE.yaml…
package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	documents "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: manifests FILE…")
		os.Exit(2)
	}
	failed := false
	for _, path := range os.Args[1:] {
		text, err := os.ReadFile(path)
		if err == nil {
			err = check(text)
		}
		if err != nil {
			failed = true
			fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
		}
	}
	if failed {
		os.Exit(1)
	}
}

// kinds are the objects that manifests may have, by apiVersion and kind.
var kinds = map[string]func() meta.Object{
	"apps/v1 Deployment":                      func() meta.Object { return &apps.Deployment{} },
	"apps/v1 StatefulSet":                     func() meta.Object { return &apps.StatefulSet{} },
	"monitoring.coreos.com/v1 ServiceMonitor": func() meta.Object { return &monitoring.ServiceMonitor{} },
	"networking.k8s.io/v1 NetworkPolicy":      func() meta.Object { return &networking.NetworkPolicy{} },
	"policy/v1 PodDisruptionBudget":           func() meta.Object { return &policy.PodDisruptionBudget{} },
	"v1 Pod":                                  func() meta.Object { return &core.Pod{} },
	"v1 Secret":                               func() meta.Object { return &core.Secret{} },
	"v1 Service":                              func() meta.Object { return &core.Service{} },
	"v1 ServiceAccount":                       func() meta.Object { return &core.ServiceAccount{} },
}

// check returns all faults of the documents of a file.
func check(text []byte) error {
	objects, err := read(text)
	if err != nil {
		return err
	}
	if len(objects) == 0 {
		return errors.New("there is no object in it")
	}
	return review(objects)
}

// read returns the objects of a file; the error has all faults of all of them.
func read(text []byte) ([]meta.Object, error) {
	var objects []meta.Object
	var faults []error
	for reader := documents.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, errors.Join(faults...)
		}
		if err != nil {
			return nil, err
		}
		var kind meta.TypeMeta
		if err := yaml.Unmarshal(document, &kind); err != nil {
			return nil, err
		}
		if kind == (meta.TypeMeta{}) {
			var rest any
			if err := yaml.Unmarshal(document, &rest); err != nil || rest != nil {
				faults = append(faults, fmt.Errorf("a document without apiVersion and kind: %w", err))
			}
			continue // comments alone
		}
		newObject, ok := kinds[kind.APIVersion+" "+kind.Kind]
		if !ok {
			faults = append(faults, fmt.Errorf("%s %s is not known here: add its type", kind.APIVersion, kind.Kind))
			continue
		}
		object := newObject()
		if err := decode(document, object); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", kind.Kind, err))
			continue
		}
		objects = append(objects, object)
	}
}

// decode reads a document as the API server does: names of fields have one case, and each is known and there once.
func decode(document []byte, into meta.Object) error {
	text, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return err
	}
	faults, err := json.UnmarshalStrict(text, into)
	return errors.Join(append(faults, err)...)
}
