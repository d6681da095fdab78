package engine

import (
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
)

func TestResultsAmongReports(t *testing.T) {
	of := func(text string, o carillon.Outcome) report {
		r := report{Report: &delivery.Report{}}
		r.Token, r.Outcome = text, o
		return r
	}
	a, b := of("a", carillon.OutcomeProgress), of("b", carillon.OutcomeProgress)
	result := of("a", carillon.OutcomeFailure)
	s := resultSet{reports: []report{a, result, b}}
	if !s.have("a") || s.have("b") {
		t.Error("only a has a result")
	}
	if !s.answers(&a) || s.answers(&b) || s.answers(&result) {
		t.Error("the result answers the progress report of its attempt, and no other report")
	}
	s.add([]report{of("b", carillon.OutcomeSuccess)})
	if !s.answers(&b) {
		t.Error("a result that came in later does not count")
	}
}
