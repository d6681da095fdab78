package compat

import (
	_ "github.com/dapr/dapr/pkg/proto/scheduler/v1"
	_ "pgregory.net/rapid"
)
