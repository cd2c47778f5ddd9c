//! JSON values into columns.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::format::column::Column;
use crate::format::column::List;
use crate::format::column::Record;
use crate::format::decode::Unknown;
use crate::format::fault::Fault;
use crate::format::fault::Step;
use crate::format::fault::path_text;
use crate::format::fault::quoted;
use crate::format::json::Cursor;
use crate::format::json::DEPTH_MAX;
use crate::format::json::Number;
use crate::format::json::Text;
use crate::format::schema::type_text;
use crate::format::value;
use crate::format::value::Misfit;

/// Reads JSON values into columns, field by field.
///
/// After an error the columns hold parts of the record, which the caller takes back.
#[derive(Debug)]
pub(super) struct Reader {
    unknown: Unknown,
    /// Number of the last object; each has its own, so that a field knows whether it was in this one.
    objects: u64,
    /// Unknown fields of the record so far: `{"a":1,"b":2`.
    captured: String,
    /// The way to the object that is being read, kept up when unknown fields are captured.
    path: Vec<Step>,
    scratch: Vec<u8>,
}

impl Reader {
    pub(super) fn new(unknown: Unknown) -> Self {
        Self { unknown, objects: 0, captured: String::new(), path: Vec::new(), scratch: Vec::new() }
    }

    /// Forgets what was captured from the last record.
    #[inline]
    pub(super) fn begin_record(&mut self) {
        self.captured.clear();
        self.path.clear();
    }

    /// The object of the unknown fields of the record that was read, or nothing.
    #[inline]
    pub(super) fn captured(&mut self) -> &str {
        if !self.captured.is_empty() {
            self.captured.push('}');
        }
        &self.captured
    }

    /// Reads one object that is a whole line.
    #[inline]
    pub(super) fn line(&mut self, record: &mut Record, cursor: &mut Cursor<'_>) -> Result<(), Box<Fault>> {
        self.object(record, cursor, 0)?;
        cursor.blanks();
        match cursor.at_end() {
            true => Ok(()),
            false => Err(cursor.fault("the end of the line behind the object")),
        }
    }

    /// Reads an object that is inside `depth` others.
    fn object(&mut self, record: &mut Record, cursor: &mut Cursor<'_>, depth: u32) -> Result<(), Box<Fault>> {
        if cursor.peek() != b'{' {
            return Err(cursor.fault("an object, `{`"));
        }
        if depth >= DEPTH_MAX {
            return Err(cursor.too_deep());
        }
        cursor.at += 1;
        cursor.blanks();
        self.objects += 1;
        let number = self.objects;
        let mut count = 0;
        if cursor.peek() == b'}' {
            cursor.at += 1;
        } else {
            let mut last = None;
            let mut guess = record.first;
            loop {
                if let Some(index) = self.find(record, cursor, guess, last, depth + 1)? {
                    last = Some(index);
                    if let Some(field) = record.fields.get_mut(index) {
                        if field.seen_in == number {
                            return Err(Fault::value("stands twice in one object").in_field(&field.name));
                        }
                        field.seen_in = number;
                        count += 1;
                        guess = field.next;
                        if let Err(fault) = self.field(&field.name, &mut field.column, cursor, depth + 1) {
                            return Err(fault.in_field(&field.name));
                        }
                    }
                }
                cursor.blanks();
                match cursor.peek() {
                    b',' => cursor.at += 1,
                    b'}' => break cursor.at += 1,
                    _ => return Err(cursor.fault("`,` or `}`")),
                }
                cursor.blanks();
            }
        }
        if count < record.fields.len() {
            for field in record.fields.iter_mut().filter(|field| field.seen_in != number) {
                field.column.push_null();
            }
        }
        Ok(())
    }

    /// Reads a name up to its value and finds the field; an unknown field is dealt with, value and all.
    ///
    /// Records of one stream look alike: the field at `guess` is tried first, and a wrong guess is
    /// mended for the next record.
    #[inline]
    fn find(
        &mut self,
        record: &mut Record,
        cursor: &mut Cursor<'_>,
        guess: usize,
        last: Option<usize>,
        depth: u32,
    ) -> Result<Option<usize>, Box<Fault>> {
        if record.fields.get(guess).is_some_and(|field| cursor.takes(&field.opening)) {
            cursor.blanks();
            return Ok(Some(guess));
        }
        let name = cursor.name()?;
        let index = record.find(name.decoded(&mut self.scratch));
        match index {
            None => self.unknown_field(name, cursor, depth)?,
            Some(index) => match last.and_then(|last| record.fields.get_mut(last)) {
                Some(last) => last.next = index,
                None => record.first = index,
            },
        }
        Ok(index)
    }

    fn unknown_field(
        &mut self,
        name: Text<'_>,
        cursor: &mut Cursor<'_>,
        depth: u32,
    ) -> Result<(), Box<Fault>> {
        let start = cursor.at;
        cursor.skip(depth)?;
        match self.unknown {
            Unknown::Ignore => {}
            Unknown::Fail => {
                return Err(Fault::value("is not in the schema").in_field(name.decoded(&mut self.scratch)));
            }
            Unknown::Capture => {
                let way = (!self.path.is_empty()).then(|| {
                    let last = Step::Field(name.decoded(&mut self.scratch).into());
                    serde_json::Value::from(path_text(self.path.iter().chain([&last]))).to_string()
                });
                self.captured.push(if self.captured.is_empty() { '{' } else { ',' });
                match way {
                    Some(way) => self.captured.push_str(&way),
                    None => self.captured.extend(["\"", name.raw, "\""]),
                }
                self.captured.push(':');
                self.captured.push_str(cursor.since(start));
            }
        }
        Ok(())
    }

    /// Adds the unknown column `name` of a CSV file.
    pub(super) fn capture_text(&mut self, name: &str, text: &str) {
        self.captured.push(if self.captured.is_empty() { '{' } else { ',' });
        self.captured.push_str(&serde_json::Value::from(name).to_string());
        self.captured.push(':');
        self.captured.push_str(&serde_json::Value::from(text).to_string());
    }

    /// Reads the value of the field `name`.
    #[inline]
    fn field(
        &mut self,
        name: &std::sync::Arc<str>,
        column: &mut Column,
        cursor: &mut Cursor<'_>,
        depth: u32,
    ) -> Result<(), Box<Fault>> {
        if self.unknown != Unknown::Capture || !matches!(column, Column::List(_) | Column::Struct(_)) {
            return self.value(column, cursor, depth);
        }
        self.path.push(Step::Field(name.clone()));
        self.value(column, cursor, depth)?;
        self.path.pop();
        Ok(())
    }

    /// Reads the value at the cursor, which is inside `depth` objects and lists.
    pub(super) fn value(
        &mut self,
        column: &mut Column,
        cursor: &mut Cursor<'_>,
        depth: u32,
    ) -> Result<(), Box<Fault>> {
        if cursor.takes_null() {
            column.push_null();
            return Ok(());
        }
        let start = cursor.at;
        let taken = match (&mut *column, cursor.peek()) {
            (Column::Text(values), b'"') => {
                let text = cursor.string()?;
                values.push_with(|out| text.append_to(out))
            }
            (Column::Int64(values), b'-' | b'0'..=b'9') => {
                let number = cursor.number()?;
                values.push(value::whole(&number).map_err(|misfit| misfits(&number, misfit, "int64"))?);
                true
            }
            (Column::Float64(values), b'-' | b'0'..=b'9') => {
                let number = cursor.number()?;
                values.push(value::float64(&number).map_err(|misfit| misfits(&number, misfit, "float64"))?);
                true
            }
            (Column::Timestamp(_, values), b'-' | b'0'..=b'9') => {
                let number = cursor.number()?;
                values.push(value::whole(&number).map_err(|misfit| misfits(&number, misfit, "a timestamp"))?);
                true
            }
            (Column::List(list), b'[') => self.list(list, cursor, depth)?,
            (Column::Struct(values), b'{') => {
                self.object(&mut values.record, cursor, depth)?;
                values.push();
                true
            }
            (Column::Json(values), _) => {
                cursor.skip(depth)?;
                values.push(cursor.since(start).as_bytes())
            }
            (Column::Boolean(values), b't') if cursor.takes(b"true") => {
                values.push(true);
                true
            }
            (Column::Boolean(values), b'f') if cursor.takes(b"false") => {
                values.push(false);
                true
            }
            (column, b'-' | b'0'..=b'9') => {
                let number = cursor.number()?;
                push_number(column, &number)?
            }
            (column, b'"') => {
                let text = cursor.string()?;
                let text = text.decoded(&mut self.scratch);
                push_text(column, text)?
            }
            _ => false,
        };
        match taken {
            true => Ok(()),
            false => {
                cursor.at = start;
                Err(wrong_type(column, cursor, depth))
            }
        }
    }

    fn list(&mut self, list: &mut List, cursor: &mut Cursor<'_>, depth: u32) -> Result<bool, Box<Fault>> {
        if depth >= DEPTH_MAX {
            return Err(cursor.too_deep());
        }
        let path =
            self.unknown == Unknown::Capture && matches!(list.items, Column::List(_) | Column::Struct(_));
        let mut count = 0;
        cursor.at += 1;
        cursor.blanks();
        if cursor.peek() == b']' {
            cursor.at += 1;
            return Ok(list.push(0));
        }
        loop {
            if path {
                self.path.push(Step::Item(count));
            }
            if let Err(fault) = self.value(&mut list.items, cursor, depth + 1) {
                return Err(fault.in_item(count));
            }
            if path {
                self.path.pop();
            }
            count += 1;
            cursor.blanks();
            match cursor.peek() {
                b',' => cursor.at += 1,
                b']' => break cursor.at += 1,
                _ => return Err(cursor.fault("`,` or `]`")),
            }
            cursor.blanks();
        }
        Ok(list.push(count))
    }
}

#[cold]
fn misfits(number: &Number<'_>, misfit: Misfit, what: &str) -> Box<Fault> {
    let text = quoted(number.text);
    Fault::value(match misfit {
        Misfit::Inexact => format!("{text} is no whole number, {what} holds no other"),
        Misfit::Range => format!("{text} is out of the range of {what}"),
    })
}

/// Appends `number` to a column of numbers; false if it is none.
pub(super) fn push_number(column: &mut Column, number: &Number<'_>) -> Result<bool, Box<Fault>> {
    macro_rules! push {
        ($values:expr, $value:expr, $what:expr) => {
            $values.push($value(number).map_err(|misfit| misfits(number, misfit, $what))?)
        };
    }
    match column {
        Column::Int8(values) => push!(values, value::whole, "int8"),
        Column::Int16(values) => push!(values, value::whole, "int16"),
        Column::Int32(values) => push!(values, value::whole, "int32"),
        Column::Int64(values) => push!(values, value::whole, "int64"),
        Column::UInt8(values) => push!(values, value::whole, "uint8"),
        Column::UInt16(values) => push!(values, value::whole, "uint16"),
        Column::UInt32(values) => push!(values, value::whole, "uint32"),
        Column::UInt64(values) => push!(values, value::whole, "uint64"),
        Column::Float32(values) => push!(values, value::float32, "float32"),
        Column::Float64(values) => push!(values, value::float64, "float64"),
        Column::Timestamp(_, values) => push!(values, value::whole, "a timestamp"),
        Column::Decimal(precision, scale, values) => {
            let (precision, scale) = (*precision, *scale);
            let what = format!("decimal({precision},{scale})");
            match value::scaled(number, i32::from(scale)) {
                Ok(unscaled) if value::fits_precision(unscaled, precision) => values.push(unscaled),
                Err(Misfit::Inexact) => {
                    let text = quoted(number.text);
                    return Err(Fault::value(format!(
                        "{text} has more than {scale} digits behind the point, {what} would round it"
                    )));
                }
                _ => return Err(misfits(number, Misfit::Range, &what)),
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Appends what `text` stands for to a column whose values may be texts; false if they may not.
pub(super) fn push_text(column: &mut Column, text: &str) -> Result<bool, Box<Fault>> {
    match column {
        Column::Text(values) => return Ok(values.push(text.as_bytes())),
        Column::Timestamp(unit, values) => match value::parse_timestamp(text, *unit) {
            Ok(ticks) => values.push(ticks),
            Err(why) => return Err(Fault::value(format!("{} {why}", quoted(text)))),
        },
        Column::Date(values) => match value::parse_date(text) {
            Some(days) => values.push(days),
            None => return Err(Fault::value(format!("{} is no date, as in `2026-01-31`", quoted(text)))),
        },
        Column::Decimal(..) => {
            let mut cursor = Cursor::new(text, 0);
            return match cursor.number() {
                Ok(number) if number.text.len() == text.len() => push_number(column, &number),
                _ => Ok(false),
            };
        }
        Column::Float32(values) => match value::float_word(text) {
            // The three words are the same in both widths.
            Some(word) => values.push(word as f32),
            None => return Ok(false),
        },
        Column::Float64(values) => match value::float_word(text) {
            Some(word) => values.push(word),
            None => return Ok(false),
        },
        Column::Binary(values) => match STANDARD.decode(text) {
            Ok(bytes) => return Ok(values.push(&bytes)),
            Err(error) => return Err(Fault::value(format!("{} is no base64: {error}", quoted(text)))),
        },
        _ => return Ok(false),
    }
    Ok(true)
}

/// Refuses the value at the cursor, if it is one at all.
#[cold]
fn wrong_type(column: &Column, cursor: &mut Cursor<'_>, depth: u32) -> Box<Fault> {
    let start = cursor.at;
    let kind = match cursor.peek() {
        b'"' => "a text",
        b'{' => "an object",
        b'[' => "a list",
        b't' | b'f' => "a boolean",
        _ => "a number",
    };
    match cursor.skip(depth) {
        Err(fault) => fault,
        Ok(()) => {
            let what = type_text(&column.data_type());
            Fault::value(format!("{} is {kind}, not {what}", quoted(cursor.since(start))))
        }
    }
}
