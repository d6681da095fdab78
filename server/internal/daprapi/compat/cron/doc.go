// Package cron holds the schedules of Carillon's face for Dapr's sidecars against the parser of Dapr's
// scheduler. It is apart from package compat because it links the face.
package cron
