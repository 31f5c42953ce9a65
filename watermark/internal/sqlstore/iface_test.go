package sqlstore

import "github.com/deltad/deltad/watermark"

var _ watermark.Store = (*Store)(nil)
