package store

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/carillonhq/carillon"
)

// TestRefsHaveATotalOrder: by namespace, then name, then sequence.
func TestRefsHaveATotalOrder(t *testing.T) {
	var ordered []Ref
	for _, namespace := range []string{"a", "a-", "b"} {
		for _, name := range []string{"", "x", "x/y", "y"} {
			for seq := range uint64(3) {
				ordered = append(ordered, Ref{Key: carillon.Key{Namespace: namespace, Name: name}, Seq: seq})
			}
		}
	}
	shuffled := slices.Clone(ordered)
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	slices.SortFunc(shuffled, Ref.Compare)
	if !slices.Equal(shuffled, ordered) {
		t.Errorf("sorted: %v", shuffled)
	}
	for i, a := range ordered {
		for j, b := range ordered {
			if got, back := a.Compare(b), b.Compare(a); got != -back || (got == 0) != (i == j) {
				t.Fatalf("%v and %v: %d, and the other way %d", a, b, got, back)
			}
		}
	}
}

// TestABatchIsEmptyWithoutAnyField: a field that Empty forgets would be a change that is never written.
func TestABatchIsEmptyWithoutAnyField(t *testing.T) {
	if b := (Batch{}); !b.Empty() {
		t.Error("the zero batch is not empty")
	}
	for i := range reflect.TypeFor[Batch]().NumField() {
		var b Batch
		switch f := reflect.ValueOf(&b).Elem().Field(i); f.Kind() {
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		case reflect.Pointer:
			f.Set(reflect.New(f.Type().Elem()))
		default:
			t.Fatalf("a field of kind %v", f.Kind())
		}
		if b.Empty() {
			t.Errorf("a batch with %s is empty", reflect.TypeFor[Batch]().Field(i).Name)
		}
	}
}
