package compat

import (
	_ "github.com/carillonhq/carillon/schedule"
	_ "github.com/dapr/kit/cron"
)
