package daprrecord

import (
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Refusal is an error about a field that Dapr's scheduler would refuse as well.
type Refusal struct {
	Field  string // for example job.schedule
	Reason string
}

func (r *Refusal) Error() string { return r.Field + ": " + r.Reason }

// GRPCStatus returns the error as Dapr's scheduler answers it: it has no code for bad input.
func (r *Refusal) GRPCStatus() *status.Status { return status.New(codes.Unknown, r.Error()) }

func refuse(field, format string, args ...any) error {
	return &Refusal{field, fmt.Sprintf(format, args...)}
}

func refused(field string, err error) error { return refuse(field, "%v", err) }

// clip keeps messages short.
func clip(text string) string {
	const most = 100
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
