package daprmetrics

// What a job belongs to, the label of most metrics.
const (
	KindJob   = "job"   // of an app
	KindActor = "actor" // a reminder
)

// What went wrong between a sidecar and here, the label of [SidecarErrors].
const (
	ErrorSend = "send_failed"
	ErrorRecv = "recv_failed"
	ErrorAuth = "auth_failed"
)

// labelValues are all values that counters have, by the name of their label.
var labelValues = map[string][][]string{
	"":       {{}},
	"type":   {{KindJob}, {KindActor}},
	"reason": {{ErrorSend}, {ErrorRecv}, {ErrorAuth}},
}
