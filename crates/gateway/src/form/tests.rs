use http::HeaderValue;
use proptest::prelude::*;

use super::*;

const MODEL: &str = "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nup\r\n";
const END: &str = "--b--\r\n";

fn read(form: &str) -> Result<Form, InvalidForm> {
    Form::read(Bytes::from(form.to_owned()), Boundary("b".to_owned()))
}

/// A part with these headers and this content.
fn part(headers: &str, content: &str) -> String {
    format!("--b\r\n{headers}\r\n\r\n{content}\r\n")
}

fn file(name: &str, content: &str) -> String {
    let disposition = format!("Content-Disposition: form-data; name=\"{name}\"; filename=\"a.wav\"");
    part(&format!("{disposition}\r\nContent-Type: audio/wav"), content)
}

#[track_caller]
fn check(form: &str, renamed: &str) {
    let read = read(form).expect("a form");
    assert_eq!(read.model(), "up");
    assert_eq!(read.with_model("the-real-name"), renamed);
}

#[track_caller]
fn check_invalid(form: &str, expected: InvalidForm) {
    assert_eq!(read(form).expect_err("an invalid form"), expected, "{form:?}");
}

#[test]
fn only_the_name_of_the_model_changes() {
    let renamed = MODEL.replace("\r\nup\r\n", "\r\nthe-real-name\r\n");
    let sound =
        file("file", "RIFF\r\n\r\n\0\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nno\r\n");
    for (before, after) in
        [("", ""), ("", sound.as_str()), (sound.as_str(), ""), (sound.as_str(), sound.as_str())]
    {
        check(&format!("{before}{MODEL}{after}{END}"), &format!("{before}{renamed}{after}{END}"));
    }
    let form = read(&format!("{MODEL}{sound}{END}")).expect("a form");
    assert_eq!(form.with_model("m"), format!("{}{sound}{END}", MODEL.replace("\r\nup\r\n", "\r\nm\r\n")));
    assert_eq!(read(&format!("{MODEL}{END}")).expect("a form").with_model("up"), format!("{MODEL}{END}"));
}

#[test]
fn clients_write_forms_in_different_ways() {
    for model in [
        "content-disposition:form-data;name=model",
        "Content-Type: text/plain; charset=utf-8\r\nContent-Disposition: form-data; name=\"model\"",
        "Content-Disposition: FORM-DATA ;  name=\"model\" ;\r\nContent-Length: 2",
        "Content-Disposition: form-data; name=\"model\"\r\nContent-Transfer-Encoding: 8bit",
    ] {
        let form = format!("{}{END}", part(model, "up"));
        assert_eq!(read(&form).expect("a form").model(), "up", "{form:?}");
    }
    for end in ["--b--", "--b--\r\n", "--b--\r\n\r\n"] {
        read(&format!("{MODEL}{end}")).expect("a form");
    }
    for headers in [
        "Content-Disposition: form-data; name=\"file\"; filename=\"Gr\u{fc}\u{df}e; name=model.wav\"",
        "Content-Disposition: form-data; name=\"file\"; filename=\"a.wav\"; filename*=utf-8''a.wav",
        "Content-Disposition: form-data; name=\"image[]\"; filename=\"C:\\a.png\"",
        "Content-Disposition: form-data; name=\"timestamp_granularities[]\"",
    ] {
        read(&format!("{}{MODEL}{END}", part(headers, ""))).expect("a form");
    }
}

/// Parsers ignore the boundary in the middle of a line. In other places, they do not agree.
#[test]
fn the_boundary_in_a_file() {
    for content in ["x--b", "x--b--", "x--b\r\n", "-\r\n-b", "\r\n -- b"] {
        check(
            &format!("{}{MODEL}{END}", file("file", content)),
            &format!("{}{}{END}", file("file", content), MODEL.replace("up", "the-real-name")),
        );
    }
    for content in
        ["--b", "--b--", "\n--b\r\n", "\r--b--", "\r\n--bx", "\r\n--b \r\n", "\r\n--b\n", "\r\n--b-x"]
    {
        check_invalid(&format!("{}{MODEL}{END}", file("file", content)), InvalidForm::BoundaryInPart);
    }
    // A form within a file is a part of the outer form, if it has the same boundary.
    let nested = file("file", &format!("\r\n{MODEL}{END}"));
    check_invalid(&format!("{nested}{MODEL}{END}"), InvalidForm::Rest);
    let other = file("file", &format!("{MODEL}{END}").replace("--b", "--c"));
    read(&format!("{other}{MODEL}{END}")).expect("a form");
}

#[test]
fn forms_that_parsers_read_differently_are_rejected() {
    use InvalidForm::*;
    check_invalid("", Start);
    check_invalid("{\"model\":\"up\"}", Start);
    check_invalid(&format!("\r\n{MODEL}{END}"), Start);
    check_invalid(&format!("preamble\r\n{MODEL}{END}"), Start);
    check_invalid(MODEL, Truncated);
    check_invalid("--b", Truncated);
    check_invalid("--b\r\nContent-Disposition: form-data; name=\"model\"", Truncated);
    check_invalid(&format!("{MODEL}{END}{MODEL}{END}"), Rest);
    check_invalid(&format!("{MODEL}{END}\n"), Rest);
    check_invalid(END, NoModel);
    check_invalid(&format!("{}{END}", file("file", "RIFF")), NoModel);
    check_invalid(&format!("{MODEL}{MODEL}{END}"), SeveralModels);
    check_invalid(&format!("{MODEL}{}{MODEL}{END}", file("file", "RIFF")), SeveralModels);
    check_invalid(&format!("{}{END}", file("model", "up")), Model);
    let model =
        |content: &str| format!("{}{END}", part("Content-Disposition: form-data; name=\"model\"", content));
    check_invalid(&model(""), Model);
    check_invalid(&model("up\r\nX"), Model);
    check_invalid(&model(&"x".repeat(MAX_MODEL_BYTES + 1)), Model);
    for name in ["Model", "MODEL", "model[]", "model[name]", "model.name", "Model[0]"] {
        let headers = format!("Content-Disposition: form-data; name=\"{name}\"");
        check_invalid(&format!("{MODEL}{}{END}", part(&headers, "x")), FieldName(name.to_owned()));
    }
    let many = part("Content-Disposition: form-data; name=\"x\"", "").repeat(MAX_PARTS);
    check_invalid(&format!("{many}{MODEL}{END}"), TooManyParts);
}

#[test]
fn headers_of_parts_that_parsers_read_differently_are_rejected() {
    let disposition = || InvalidForm::PartHeader("content-disposition");
    for (headers, expected) in [
        ("Content-Type: text/plain", disposition()),
        ("Content-Disposition: attachment; name=\"model\"", disposition()),
        ("Content-Disposition: form-data", disposition()),
        ("Content-Disposition: form-data; name=\"\"", disposition()),
        ("Content-Disposition: form-data; name=\"a\"; name=\"model\"", disposition()),
        ("Content-Disposition: form-data; name=\"a\"; name*=utf-8''model", disposition()),
        ("Content-Disposition: form-data; name=\"a\"; filename=\"x\"; filename=\"y\"", disposition()),
        ("Content-Disposition: form-data; name=\"a\"; filename=\"x\\\"; name=\"model\"", disposition()),
        ("Content-Disposition: form-data; name=\"mo\\del\"", disposition()),
        ("Content-Disposition: form-data; name=\"%6dodel\"", disposition()),
        ("Content-Disposition: form-data; name=\"m\u{f6}del\"", disposition()),
        ("Content-Disposition: form-data; name=\"model", disposition()),
        ("Content-Disposition: form-data, name=\"model\"", disposition()),
        (
            "Content-Disposition: form-data; name=\"a\"\r\nContent-Disposition: form-data; name=\"model\"",
            disposition(),
        ),
        (
            "Content-Disposition: form-data; name=\"a\"\r\nContent-Transfer-Encoding: base64",
            InvalidForm::PartHeader("content-transfer-encoding"),
        ),
        (
            "Content-Disposition: form-data; name=\"a\"\r\nContent-Type: multipart/mixed; boundary=c",
            InvalidForm::PartHeader("content-type"),
        ),
        ("Content-Disposition: form-data; name=\"b\";\r\n name=\"a\"", InvalidForm::PartHeaders),
        ("Content-Disposition: form-data; name=\"a\"\nX: y", InvalidForm::PartHeaders),
        ("Content-Disposition : form-data; name=\"a\"", InvalidForm::PartHeaders),
        ("Content-Disposition: form-data; name=\"a\0\"", InvalidForm::PartHeaders),
        ("Content-Disposition: form-data; name=\"a\"\r\nno colon", InvalidForm::PartHeaders),
    ] {
        check_invalid(&format!("{MODEL}{}{END}", part(headers, "x")), expected);
    }
    let named = "Content-Disposition: form-data; name=\"a\"";
    let many = format!("{named}{}", "\r\nX: y".repeat(MAX_PART_HEADERS));
    check_invalid(&format!("{MODEL}{}{END}", part(&many, "x")), InvalidForm::PartHeaders);
    let large = format!("{named}\r\nX: {}", "y".repeat(MAX_PART_HEADER_BYTES));
    check_invalid(&format!("{MODEL}{}{END}", part(&large, "x")), InvalidForm::PartHeaders);
}

#[test]
fn fields_with_ids_of_files_are_found() {
    let field = |name: &str| part(&format!("Content-Disposition: form-data; name=\"{name}\""), "file-1");
    for name in ["file_id", "image[file_id]", "images[0][file_ids][]", "image.File_Id"] {
        let form = read(&format!("{}{MODEL}{END}", field(name))).expect("a form");
        assert_eq!(form.stored_reference(), Some(name));
    }
    let form = read(&format!("{}{MODEL}{END}", field("file_identity"))).expect("a form");
    assert_eq!(form.stored_reference(), None);
}

#[test]
fn the_boundary_of_the_header() {
    let boundary = |value: &str| {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_str(value).expect("a header"));
        Boundary::of(&headers)
    };
    for (value, expected) in [
        ("multipart/form-data; boundary=b", "b"),
        ("Multipart/Form-Data;boundary=\"b:c\"; charset=utf-8", "b:c"),
        ("multipart/form-data; charset=utf-8; Boundary=----x=1", "----x=1"),
    ] {
        let boundary = boundary(value).expect("a boundary");
        assert_eq!(boundary.content_type(), format!("multipart/form-data; boundary=\"{expected}\""));
    }
    for value in [
        "multipart/form-data",
        "multipart/form-data; boundary",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=\"b",
        "multipart/form-data; boundary=\"b c\"",
        "multipart/form-data; boundary=b, boundary=c",
        "multipart/form-data; boundary=b; boundary=c",
        "multipart/form-data; boundary=b; Boundary=c",
        "multipart/form-data; boundary=\"a\\\"b\"",
        &format!("multipart/form-data; boundary={}", "x".repeat(71)),
    ] {
        assert_eq!(boundary(value), Err(InvalidForm::Boundary), "{value}");
    }
}

proptest! {
    /// Whatever a file contains, the form is rejected, or only the name of the model changes.
    #[test]
    fn files_stay_as_they_are(
        content in "(--b|\r\n|\r|\n|-|b|[a-z\"; =:]|name=\"model\"){0,40}",
        model_is_first in any::<bool>(),
    ) {
        let file = file("file", &content);
        let parts = if model_is_first { [MODEL, &file] } else { [&*file, MODEL] };
        if let Ok(form) = read(&format!("{}{END}", parts.concat())) {
            let renamed = MODEL.replace("\r\nup\r\n", "\r\nother\r\n");
            let expected = if model_is_first { [&*renamed, &file] } else { [&*file, &renamed] };
            prop_assert_eq!(form.with_model("other"), format!("{}{END}", expected.concat()));
        }
    }

    /// No input causes a panic, and a part that is removed from the end is noticed.
    #[test]
    fn truncated_forms_are_rejected(length in 0_usize..200, noise in any::<Vec<u8>>()) {
        let form = format!("{}{MODEL}--b--", file("file", "RIFF"));
        let cut = &form.as_bytes()[..length.min(form.len() - 1)];
        prop_assert!(Form::read(Bytes::copy_from_slice(cut), Boundary("b".to_owned())).is_err());
        let noisy = [b"--b\r\n", &noise[..]].concat();
        let _ = Form::read(Bytes::from(noisy), Boundary("b".to_owned()));
    }
}
