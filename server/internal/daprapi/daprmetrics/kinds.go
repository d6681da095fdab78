package daprmetrics

// Kind is what a job belongs to, as metrics call it.
type Kind string

// The kinds.
const (
	KindJob     Kind = "job"   // of an app
	KindActor   Kind = "actor" // a reminder
	KindUnknown Kind = "unknown"
)

// SidecarError is what went wrong between a sidecar and here, as metrics call it.
type SidecarError string

// What goes wrong.
const (
	ErrorSend SidecarError = "send_failed"
	ErrorRecv SidecarError = "recv_failed"
	ErrorAuth SidecarError = "auth_failed"
)
