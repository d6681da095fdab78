// Package sentryv1 describes what a client of Dapr's sentry needs of its protocol; every other file is
// generated. It registers under Dapr's names, so no program can link it together with Dapr's own Go packages.
package sentryv1
