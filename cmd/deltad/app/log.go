package app

import (
	"fmt"
	"slices"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// logger writes JSON lines to stderr: times in RFC 3339, durations in whole
// milliseconds, errors under err.
func (c *cli) logger() (*zap.Logger, error) {
	level, err := zapcore.ParseLevel(c.logLevel)
	if err != nil {
		return nil, fmt.Errorf("--log-level: %w", err)
	}
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.RFC3339TimeEncoder
	enc.EncodeDuration = zapcore.MillisDurationEncoder
	return zap.New(errKey{zapcore.NewCore(zapcore.NewJSONEncoder(enc), zapcore.Lock(zapcore.AddSync(c.errs)), level)}), nil
}

// errKey writes errors under err, where zap.Error has another name for them.
type errKey struct{ zapcore.Core }

func (c errKey) With(fields []zapcore.Field) zapcore.Core {
	return errKey{c.Core.With(renamed(fields))}
}

func (c errKey) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

func (c errKey) Write(e zapcore.Entry, fields []zapcore.Field) error {
	return c.Core.Write(e, renamed(fields))
}

func renamed(fields []zapcore.Field) []zapcore.Field {
	isError := func(f zapcore.Field) bool { return f.Type == zapcore.ErrorType && f.Key == "error" }
	if !slices.ContainsFunc(fields, isError) {
		return fields
	}
	fields = slices.Clone(fields)
	for i, f := range fields {
		if isError(f) {
			fields[i].Key = "err"
		}
	}
	return fields
}
