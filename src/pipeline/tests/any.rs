//! Files of any kind: taken or refused, with places inside the file, and never a panic.

use proptest::prelude::any;
use proptest::proptest;
use proptest::sample::Index;

use super::WHOLE;
use super::parse;

/// Pieces that meet the corners of the parsers.
const PIECES: &[&str] = &[
    "\"",
    "'",
    "[",
    "]",
    "{",
    "}",
    "=",
    "\n",
    "#",
    "\\",
    "${",
    "}",
    "é",
    "日本",
    "\u{feff}",
    "0",
    "-1",
    "1e999",
    "true",
    "\"\"\"",
    "[[sink]]",
    "[a.b]",
    "a.b.c = 1\n",
    "99999999999999999999",
    "2026-03-01",
    "\r",
    "\t",
    "**",
    "../",
    "{ts:%",
    "price = \"list<",
    "inf",
    "nan",
    "= \"\"\n",
];

fn judge(text: &str) {
    if let Err(problems) = parse(text) {
        let lines = text.lines().count().max(1) + 1;
        assert!(!problems.list.is_empty());
        for problem in &problems.list {
            assert!((1..=lines).contains(&problem.line) && problem.column >= 1, "{problems}\n{text}");
        }
    }
}

proptest! {
    #[test]
    fn a_right_file_with_something_put_in_or_taken_out(edits in proptest::collection::vec((any::<Index>(), any::<Index>(), 0..12usize), 1..4)) {
        let mut chars: Vec<char> = WHOLE.chars().collect();
        for (at, piece, cut) in edits {
            let at = at.index(chars.len());
            let end = (at + cut).min(chars.len());
            chars.splice(at..end, PIECES[piece.index(PIECES.len())].chars());
        }
        judge(&chars.into_iter().collect::<String>());
    }

    #[test]
    fn a_right_file_with_a_line_less(at: Index) {
        let lines: Vec<&str> = WHOLE.lines().collect();
        let at = at.index(lines.len());
        let rest: Vec<&str> = lines.iter().enumerate().filter(|(line, _)| *line != at).map(|(_, line)| *line).collect();
        judge(&rest.join("\n"));
    }

    #[test]
    fn a_right_file_with_another_value(at: Index, value in "[ -~]{0,12}|\"[ -~]{0,20}\"") {
        let lines: Vec<String> = WHOLE.lines().map(str::to_owned).collect();
        let with_value: Vec<usize> = (0..lines.len()).filter(|line| lines[*line].contains(" = ")).collect();
        let line = with_value[at.index(with_value.len())];
        let mut lines = lines;
        let key = lines[line].split(" = ").next().unwrap_or_default().to_owned();
        lines[line] = format!("{key} = {value}");
        judge(&lines.join("\n"));
    }
}
