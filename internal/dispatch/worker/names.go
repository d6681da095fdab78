package worker

import (
	"strings"
	"unicode/utf8"

	"github.com/carillonhq/carillon"
)

func validateNamespace(ns string) error {
	if ns == "" || len(ns) > 63 || strings.Trim(ns, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return carillon.Errorf(carillon.InvalidArgument, "namespace", "%q is not 1 to 63 of a-z, 0-9 and -", ns)
	}
	return nil
}

func validateQueueName(q string) error {
	if q == "" || len(q) > 512 || !utf8.ValidString(q) || strings.ContainsFunc(q, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return carillon.Errorf(carillon.InvalidArgument, "queues", "%q is not 1 to 512 bytes of printable UTF-8", q)
	}
	return nil
}
