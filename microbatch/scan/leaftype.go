package scan

import (
	"fmt"

	"github.com/deltad/deltad/microbatch/column"
)

// convert says how a leaf's stored values become column values.
type convert uint8

const (
	asIs        convert = iota // bool, int, double, string, bytes as stored
	fromUint32                 // INT32 read as unsigned
	fromUint64                 // INT64 read as unsigned, to decimal(20,0)
	toTimeNanos                // times mul, to nanoseconds
	toInstant                  // per units a second, to seconds and nanoseconds
	fromInt96                  // Julian day and nanoseconds of the day
	toDecimal                  // an integer, or big-endian two's complement bytes
	toHalf                     // two bytes of float16
	toUUID                     // sixteen bytes
	toText                     // bytes that must be UTF-8
	nothing                    // a column that is null by its type
)

// leafType is what a leaf holds.
type leafType struct {
	typ  column.Type
	conv convert
	mul  int64 // toTimeNanos: nanoseconds a unit; toInstant: units a second
}

// unknownType is the LogicalType of a column that is null by its type.
const unknownType = 11

// The ConvertedTypes, the older annotation.
const (
	convUTF8        = 0
	convEnum        = 4
	convDecimal     = 5
	convDate        = 6
	convTimeMillis  = 7
	convTimeMicros  = 8
	convStampMillis = 9
	convStampMicros = 10
	convUint8       = 11
	convUint16      = 12
	convUint32      = 13
	convUint64      = 14
	convInt8        = 15
	convInt64       = 18
	convJSON        = 19
	convBSON        = 20
	convInterval    = 21
)

// normalized returns the element's annotation as a logicalType, translated
// from a ConvertedType where there is only that.
func (e *schemaElement) normalized() (logicalType, error) {
	l := e.logical
	if l.id != 0 || e.converted < 0 {
		return l, nil
	}
	switch c := e.converted; c {
	case convUTF8:
		l.id = 1
	case convEnum:
		l.id = 4
	case convDecimal:
		l = logicalType{id: 5, scale: e.scale, precision: e.precision}
	case convDate:
		l.id = 6
	case convTimeMillis, convTimeMicros:
		l = logicalType{id: 7, unit: int16(c-convTimeMillis) + 1}
	case convStampMillis, convStampMicros:
		l = logicalType{id: 8, unit: int16(c-convStampMillis) + 1}
	case convUint8, convUint16, convUint32, convUint64:
		l = logicalType{id: 10, bits: 8 << (c - convUint8)}
	case convInt8, convInt8 + 1, convInt8 + 2, convInt64:
		l = logicalType{id: 10, bits: 8 << (c - convInt8), signed: true}
	case convJSON:
		l.id = 12
	case convBSON:
		l.id = 13
	case convInterval:
		return l, fmt.Errorf("intervals are not supported")
	}
	return l, nil
}

// leafType maps a leaf to a column type. An annotation that does not belong to
// the physical type is an error; one that is unknown is ignored, as the format
// asks for.
func (e *schemaElement) leafType() (leafType, error) {
	l, err := e.normalized()
	if err != nil {
		return leafType{}, err
	}
	wrong := fmt.Errorf("logical type %d on physical type %d", l.id, e.phys)
	of := func(k column.Kind, c convert) (leafType, error) { return leafType{typ: column.Of(k), conv: c}, nil }
	if e.phys == physFixed && (e.length <= 0 || e.length > 1<<20) {
		return leafType{}, fmt.Errorf("fixed length %d", e.length)
	}
	switch l.id {
	case 1, 4, 12: // STRING, ENUM, JSON
		if e.phys != physBytes && e.phys != physFixed {
			return leafType{}, wrong
		}
		return of(column.String, toText)
	case 5:
		return e.decimalType(l)
	case 6:
		if e.phys != physInt32 {
			return leafType{}, wrong
		}
		return of(column.Date, asIs)
	case 7, 8:
		return e.timeType(l)
	case 10:
		return e.intType(l)
	case unknownType:
		return of(column.Null, nothing)
	case 14:
		if e.phys != physFixed || e.length != 16 {
			return leafType{}, wrong
		}
		return of(column.String, toUUID)
	case 15:
		if e.phys != physFixed || e.length != 2 {
			return leafType{}, wrong
		}
		return of(column.Float32, toHalf)
	}
	switch e.phys {
	case physBoolean:
		return of(column.Bool, asIs)
	case physInt32:
		return of(column.Int32, asIs)
	case physInt64:
		return of(column.Int64, asIs)
	case physInt96:
		return of(column.Timestamp, fromInt96)
	case physFloat:
		return of(column.Float32, asIs)
	case physDouble:
		return of(column.Float64, asIs)
	case physBytes, physFixed:
		return of(column.Bytes, asIs)
	}
	return leafType{}, fmt.Errorf("unknown physical type %d", e.phys)
}

func (e *schemaElement) decimalType(l logicalType) (leafType, error) {
	if l.precision < 1 || l.precision > 38 || l.scale < 0 || l.scale > l.precision {
		return leafType{}, fmt.Errorf("decimal(%d,%d) is not within decimal(38,38)", l.precision, l.scale)
	}
	switch e.phys {
	case physInt32, physInt64, physBytes, physFixed:
		return leafType{typ: column.DecimalOf(int(l.precision), int(l.scale)), conv: toDecimal}, nil
	}
	return leafType{}, fmt.Errorf("decimal on physical type %d", e.phys)
}

func (e *schemaElement) timeType(l logicalType) (leafType, error) {
	phys := int32(physInt64)
	if l.id == 7 && l.unit == 1 {
		phys = physInt32
	}
	if l.unit < 1 || l.unit > 3 || e.phys != phys {
		return leafType{}, fmt.Errorf("time unit %d on physical type %d", l.unit, e.phys)
	}
	perSecond := [...]int64{1: 1e3, 2: 1e6, 3: 1e9}[l.unit]
	if l.id == 7 {
		return leafType{typ: column.Of(column.Time), conv: toTimeNanos, mul: 1e9 / perSecond}, nil
	}
	return leafType{typ: column.Of(column.Timestamp), conv: toInstant, mul: perSecond}, nil
}

func (e *schemaElement) intType(l logicalType) (leafType, error) {
	phys := int32(physInt32)
	if l.bits == 64 {
		phys = physInt64
	}
	if e.phys != phys || l.bits != 8 && l.bits != 16 && l.bits != 32 && l.bits != 64 {
		return leafType{}, fmt.Errorf("%d-bit integer on physical type %d", l.bits, e.phys)
	}
	switch {
	case l.bits == 64 && !l.signed:
		return leafType{typ: column.DecimalOf(20, 0), conv: fromUint64}, nil
	case l.bits == 64:
		return leafType{typ: column.Of(column.Int64)}, nil
	case l.bits == 32 && !l.signed:
		return leafType{typ: column.Of(column.Int64), conv: fromUint32}, nil
	}
	return leafType{typ: column.Of(column.Int32)}, nil
}
